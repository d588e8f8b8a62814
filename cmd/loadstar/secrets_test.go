package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// secretMark is in every secret of TestSecretsStayInside.
const secretMark = "s3cr3t"

// output is what is searched for secrets, by where it came from.
type output map[string]string

func (o output) wantNoSecrets(t *testing.T, marks ...string) {
	t.Helper()
	for from, text := range o {
		for _, m := range marks {
			if i := strings.Index(text, m); i >= 0 {
				t.Errorf("%s tells a secret: …%s…", from, text[max(0, i-100):min(len(text), i+100)])
			}
		}
	}
}

// What is secret is in no log, no error, no metric, no list and no dump, whatever
// goes wrong: the router is run with secrets in every place that takes one, many
// kinds of requests fail, and all that comes out is searched.
func TestSecretsStayInside(t *testing.T) {
	ca, f := newAuthority(t), files{t, t.TempDir()}
	cert, key := ca.issue(t, 2)
	f.write("cert", cert)
	f.write("key", key)
	f.write("keys", []byte("team:"+secretMark+"-file\n"))
	keyLine := strings.Split(string(key), "\n")[1]
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health", "/metrics":
			if r.Header.Get("Authorization") != "Bearer "+secretMark+"-worker" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		case "/v1/completions":
			panic(http.ErrAbortHandler)
		case "/v1/responses":
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Write([]byte("not HTTP\r\n\r\n"))
			c.Close()
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer broken.Close()
	broken.Config.ErrorLog = nil

	nats := startNATS(t, "127.0.0.1:0")

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "--port", "0", "--prometheus-port", "0", "--admin-listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug", "--access-log",
		"--debug-endpoints", "--retry-max-retries", "2", "--retry-initial-backoff-ms", "1", "--worker-startup-check-interval", "0.05", "--worker-startup-timeout-secs", "0.2",
		"--health-check-interval-secs", "0.1", "--worker-urls", broken.URL, "https://127.0.0.1:1", strings.Replace(broken.URL, "http:", "https:", 1),
		"--tls-cert-path", f.path("cert"), "--tls-key-path", f.path("key"), "--worker-tls-cert", f.path("cert"), "--worker-tls-key", f.path("key"),
		"--api-key", secretMark+"-worker", "--client-api-key", "team:"+secretMark+"-client", secretMark+"-other", "--client-api-keys-file", f.path("keys"),
		"--admin-api-key", secretMark+"-admin", "--peers-nats", "nats://router:"+secretMark+"-nats@127.0.0.1:1", "nats://"+secretMark+"-token@"+nats.Addr())
	cmd.Env = append(os.Environ(), "LOADSTAR_TEST_MAIN=1")
	logPath := f.write("log", nil)
	log, err := os.OpenFile(logPath, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	logged := func() string {
		text, err := os.ReadFile(logPath)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	eventually(t, "the router to listen", func() bool { return strings.Contains(logged(), `"listening"`) })
	var at struct{ Address, Metrics, Admin string }
	for line := range strings.SplitSeq(logged(), "\n") {
		if strings.Contains(line, `"listening"`) {
			if err := json.Unmarshal([]byte(line), &at); err != nil {
				t.Fatal(err)
			}
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool}}}
	eventually(t, "readiness", func() bool { return get(t, client, "https://"+at.Address+"/readiness", "") == 200 })

	out, n := make(output), 0
	ask := func(method, url, auth, body string) {
		t.Helper()
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if auth != "" {
			req.Header.Set("Authorization", auth)
			req.Header.Set("X-Api-Key", secretMark+"-xapikey")
			req.Header.Set("Cookie", "session="+secretMark)
			req.Header.Set("X-Session-Id", secretMark+"-session")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		n++
		out[fmt.Sprintf("%d: %s %s", n, method, url)] = fmt.Sprint(resp.Status, resp.Header, string(text))
	}
	prompt := `{"model":"m","prompt":"` + secretMark + `-prompt"}`
	for _, auth := range []string{
		"", "Bearer " + secretMark + "-client", "Bearer " + secretMark + "-file", "Bearer " + secretMark + "-other", "Bearer " + secretMark + "-wrong", "Bearer " + secretMark + "-admin", "Basic " + secretMark,
	} {
		for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/unknown", "/v1/models", "/v1/embeddings?key=" + secretMark} {
			ask("POST", "https://"+at.Address+path, auth, prompt)
			ask("GET", "https://"+at.Address+path, auth, "")
		}
		for _, path := range []string{
			"/workers", "/add_worker?url=http://bob:" + secretMark + "@127.0.0.1:2", "/add_worker?url=http://127.0.0.1:2/?key%3D" + secretMark, "/add_worker?wait=false&url=http://127.0.0.1:2",
			"/remove_worker?url=http://bob:" + secretMark + "@x", "/flush_cache", "/get_loads", "/peers", "/list_workers", "/finish_session?session_id=x", "/workers/http%3A%2F%2Fbob%3A" + secretMark + "%40x",
		} {
			ask("POST", "https://"+at.Admin+path, auth, `{"url":"http://bob:`+secretMark+`@127.0.0.1:2","api_key":"`+secretMark+`"}`)
			ask("GET", "https://"+at.Admin+path, auth, "")
			ask("DELETE", "https://"+at.Admin+path, auth, "")
		}
	}
	for _, raw := range []string{
		"GET /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secretMark + "\r\nbad " + secretMark + "\r\n\r\n",
		"GET /x HTTP/1.1\r\nHost: x\r\nAuthorization : Bearer " + secretMark + "\r\n\r\n",
		"GET " + secretMark + " HTTP/1.1\r\nHost: x\r\n\r\n", secretMark + "\r\n\r\n",
		"GET /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secretMark + strings.Repeat("x", 40_000) + "\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secretMark + "-client\r\nContent-Length: 100\r\n\r\n" + secretMark,
		"CONNECT " + secretMark + ":443 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c, err := tls.Dial("tcp", at.Address, &tls.Config{RootCAs: ca.pool})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, raw)
		c.CloseWrite()
		c.SetReadDeadline(time.Now().Add(patience))
		text, _ := io.ReadAll(c)
		c.Close()
		out["answer to "+raw[:min(len(raw), 30)]] = string(text)
	}
	plain, err := net.Dial("tcp", at.Address)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(plain, "GET / HTTP/1.1\r\nAuthorization: Bearer "+secretMark+"\r\n\r\n")
	plain.Close()

	f.replace("keys", []byte("a b "+secretMark+"\n"))
	f.replace("cert", key) // the wrong way round
	hup(t, cmd.Process)
	eventually(t, "three faulty files", func() bool { return strings.Count(logged(), "what was read before is") >= 3 })

	for _, path := range []string{"/metrics", "/", "/debug/leases", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1", "/debug/pprof/symbol"} {
		ask("GET", "http://"+at.Metrics+path, "", "")
	}
	ask("GET", "https://"+at.Address+"/metrics", "", "")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exitOf(t, cmd)
	out["log"] = logged()
	for _, want := range []string{`"level":"DEBUG"`, `"tenant":"team"`, `"status":401`, "line 1: ", broken.URL} {
		if !strings.Contains(out["log"], want) {
			t.Errorf("no %q in the log, so it isn't the whole of it", want)
		}
	}
	out.wantNoSecrets(t, secretMark, keyLine)

	// And nothing that is wrong with the command line.
	for _, line := range []string{
		"--api-key s3cr3t s3cr3t", "--admin-api-key s3cr3tä", "--client-api-key a:s3cr3t :s3cr3t s3cr3té", "--admin-api-key -s3cr3t", "--admin-api-keyx=s3cr3t",
		"--worker-urls http://bob:s3cr3t@a http://a?key=s3cr3t http://a#s3cr3t http://bob:s3?s3cr3t@a:1", "--decode http://bob:s3cr3t@a:x", "--prefill http://a?s3cr3t",
		"--prefill http://bob:s3cr3t@a 1 --prefill http://bob:s3cr3t@a 2",
		"--allowed-worker-hosts b --worker-urls http://bob:s3cr3t@a http://c", "--api-key-validation-urls http://bob:s3cr3t@a",
	} {
		err := program{version: "test", out: io.Discard, route: nil, demo: nil}.run(t.Context(), strings.Fields(line))
		if err == nil {
			t.Errorf("%s is taken, want it refused", line)
			continue
		}
		output{line: err.Error()}.wantNoSecrets(t, secretMark)
	}
	var help bytes.Buffer
	env := func(name string) (string, bool) { return secretMark, strings.HasSuffix(name, "KEY") }
	if err := (program{env: env, out: &help}).run(t.Context(), []string{"--help"}); err != nil {
		t.Fatal(err)
	}
	output{"--help": help.String()}.wantNoSecrets(t, secretMark)
}
