package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// browser is a Chromium without a window, told what to do over a pair of pipes.
type browser struct {
	t       *testing.T
	out     io.Writer
	answers chan browserAnswer
	last    int
	session string
}

type browserAnswer struct {
	ID     int
	Method string
	Result json.RawMessage
	Params json.RawMessage
	Error  *struct{ Message string }
}

// slowBrowser is how long a browser may take on a busy machine.
const slowBrowser = 30 * time.Second

// startBrowser starts a Chromium with one empty page, or skips the test where there
// is none.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no chromium, chromium-browser or google-chrome in PATH: the status page is not looked at in a browser")
	}
	in, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--mute-audio",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{in, out} // 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	b := &browser{t: t, out: toBrowser, answers: make(chan browserAnswer, 1024)}
	go b.read(fromBrowser)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its children too
		_ = cmd.Wait()
		toBrowser.Close()
		for range b.answers { // until all that held the pipe are gone
		}
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	return b
}

func (b *browser) read(from io.ReadCloser) {
	defer from.Close()
	defer close(b.answers)
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var a browserAnswer
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &a) == nil && a.ID > 0 {
			b.answers <- a
		}
	}
}

// call makes one call of the DevTools protocol.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.last++
	m := map[string]any{"id": b.last, "method": method, "params": params}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	if _, err := b.out.Write(append(mustJSON(m), 0)); err != nil {
		b.t.Fatal(err)
	}
	late := time.After(slowBrowser)
	for {
		select {
		case a, ok := <-b.answers:
			switch {
			case !ok:
				b.t.Fatalf("%s: the browser has ended", method)
			case a.ID != b.last:
				continue
			case a.Error != nil:
				b.t.Fatalf("%s: %s", method, a.Error.Message)
			}
			if result != nil {
				if err := json.Unmarshal(a.Result, result); err != nil {
					b.t.Fatal(err)
				}
			}
			return
		case <-late:
			b.t.Fatalf("%s: no answer from the browser in %v", method, slowBrowser)
		}
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
}

// eval is the text that an expression gives in the page.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "returnByValue": true, "awaitPromise": true}, &got)
	if got.ExceptionDetails != nil {
		return "exception: " + got.ExceptionDetails.Text
	}
	text, _ := got.Result.Value.(string)
	return text
}

// wait waits until an expression gives a text.
func (b *browser) wait(expression, want string) {
	b.t.Helper()
	got := ""
	for end := time.Now().Add(slowBrowser); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = b.eval(expression); got == want {
			return
		}
	}
	b.t.Fatalf("%s is %q, want %q; the page says:\n%s", expression, got, want, b.eval("document.body.innerText"))
}
