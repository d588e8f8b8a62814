package proxy

import (
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// rowText is the text of a row of the page's table of workers, without line ends.
func rowText(worker string) string {
	return `[...document.querySelectorAll('#workers tr')].find(r => r.innerText.includes('` + worker + `'))`
}

// TestStatusPageInABrowser: the page shows what /workers says, follows requests that
// begin and are aborted, takes what clients wrote for text, says when the router is
// gone, and goes on when it is back. Its policy is kept by what it does itself.
func TestStatusPageInABrowser(t *testing.T) {
	b := startBrowser(t)
	b.call("Page.enable", map[string]any{}, nil)
	b.call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `
		window.breaches = [];
		document.addEventListener('securitypolicyviolation', e => breaches.push(e.violatedDirective));
		addEventListener('error', e => breaches.push(e.message));
		addEventListener('unhandledrejection', e => breaches.push(e.reason));
		window.hacked = false;`}, nil)
	one, other := proxytest.NewWorker(t, either), proxytest.NewWorker(t, either)
	addr := ""
	t.Run("router", func(t *testing.T) {
		b.t = t
		o := testOptions("round_robin")
		o.AdminKey = "ak"
		r := startRouter(t, o, one, other)
		addr = r.addr
		b.open("http://" + addr + "/status")
		// The key.
		b.wait("document.getElementById('login').hidden", "false")
		b.wait("document.activeElement.id", "key")
		b.eval(`(key => { document.getElementById('key').value = key; document.querySelector('#login button').click(); })('wrong')`)
		b.wait("document.getElementById('link').textContent", "The router does not know this key.")
		b.eval(`(key => { document.getElementById('key').value = key; document.querySelector('#login button').click(); })('ak')`)
		b.wait("document.getElementById('link').textContent", "Live")
		b.wait("document.getElementById('count').textContent", "2 of 2 usable")

		// A request that begins, with markup for its id, and is aborted.
		const markup = `<img src=x onerror=hacked=true>`
		c := proxytest.Dial(t, r.addr)
		if err := c.Post(chatPath, chat("hi", true), jsonType, proxytest.H("x-request-id", markup)); err != nil {
			t.Fatal(err)
		}
		b.wait(`[...document.querySelectorAll('#workers .num')].map(e => e.textContent).sort()`, "0,1")
		b.wait(`document.querySelector('#decisions td:last-child').textContent`, chatPath+" "+markup)
		var list struct {
			Workers []struct {
				URL  string
				Load int
			}
		}
		if err := json.Unmarshal(r.call("GET", "/workers", "", bearerOf("ak")).Body, &list); err != nil || len(list.Workers) != 2 {
			t.Fatalf("/workers: %v %v", list, err)
		}
		for _, w := range list.Workers {
			b.wait(rowText(w.URL)+`.querySelector('.num').textContent`, strconv.Itoa(w.Load))
			b.wait(rowText(w.URL)+`.querySelector('[data-label=State] div').textContent`, "healthy")
		}
		c.Reset()
		b.wait(`[...document.querySelectorAll('#workers .num')].map(e => e.textContent)`, "0,0")
		b.wait(`document.querySelectorAll('#decisions img').length + ' ' + hacked`, "0 false")

		// A worker that drains, and one with hostile labels that never is healthy.
		if got := r.call("POST", "/workers?wait=false", `{"url":"http://127.0.0.1:1","model_id":"<script>hacked=true</script>","labels":{"zone":"<b>x</b>"}}`, bearerOf("ak")); got.Status != 202 {
			t.Fatalf("POST /workers: %d %s", got.Status, got.Body)
		}
		b.wait(rowText("127.0.0.1:1\\n")+`.querySelector('[data-label=State] div').textContent`, "unhealthy")
		b.wait(rowText("127.0.0.1:1\\n")+`.querySelectorAll('.small')[0].textContent`, "<script>hacked=true</script>")
		b.wait(rowText("127.0.0.1:1\\n")+`.querySelectorAll('.small')[1].textContent`, `models ["<script>hacked=true</script>"] · source api · zone <b>x</b>`)

		// The filter, and the pause, by keys alone.
		b.eval(`(() => { const f = document.getElementById('filter'); f.value = 'unhealthy'; f.focus(); })()`)
		b.wait(`[...document.querySelectorAll('#workers tr')].filter(r => !r.hidden).length`, "1")
		b.eval(`document.getElementById('filter').value = ''`)
		b.eval(`document.getElementById('pause').focus()`)
		for _, kind := range []string{"keyDown", "keyUp"} {
			b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}, nil)
		}
		b.wait(`document.getElementById('pause').getAttribute('aria-pressed')`, "true")
		r.waitViewed(false)
		b.eval(`document.getElementById('pause').click()`)
		b.wait("document.getElementById('link').textContent", "Live")

		// On a phone nothing is wider than the screen, and every field has its label.
		b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": true}, nil)
		b.wait("document.documentElement.scrollWidth", "360")
		b.wait(`getComputedStyle(document.querySelector('#workers td'), '::before').content`, `"State"`)
		b.wait("breaches.length + ' ' + breaches", "0 ")
	})
	b.t = t
	b.wait("document.getElementById('view').classList.contains('lost')", "true")
	if got := b.eval("document.getElementById('link').textContent"); !strings.HasPrefix(got, "Stale.") {
		t.Errorf("the page says %q of a router that is gone, want that it is stale", got)
	}
	// Back at the same address.
	o := testOptions("round_robin")
	o.AdminKey = "ak"
	startServed(t, o, func(p *Proxy, ln net.Listener) error {
		again, err := Listen(addr, 0)
		if err != nil {
			return err
		}
		ln.Close()
		return p.Serve(again, nil)
	}, one)
	b.wait("document.getElementById('link').textContent", "Live")
	b.wait("document.getElementById('count').textContent", "1 of 1 usable")
	if got := strings.Split(b.eval("breaches.join('|')"), "|"); slices.ContainsFunc(got, func(s string) bool { return s != "" }) {
		t.Errorf("the page broke its policy or threw: %q", got)
	}
}
