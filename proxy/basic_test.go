package proxy

import (
	"testing"

	"loadstar/proxy/proxytest"
)

func TestPlainAnswer(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{"ok":true}`))
	r := startRouter(t, testOptions("cache_aware"), w)
	got := proxytest.Do(t, r.addr, proxytest.Request{Target: "/v1/chat/completions", Body: chat("hi", false), Headers: []proxytest.Header{jsonType}})
	if got.Status != 200 || string(got.Body) != `{"ok":true}` {
		t.Errorf("answer %d %q", got.Status, got.Body)
	}
	r.waitLoad(w, 0)
}

func TestStreamedAnswer(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.SSE(5, 0))
	r := startRouter(t, testOptions("cache_aware"), w)
	got := proxytest.Do(t, r.addr, proxytest.Request{Target: "/v1/chat/completions", Body: chat("hi", true), Headers: []proxytest.Header{jsonType}})
	t.Logf("%s\n%s", got.RawHead, got.RawBody)
	if got.Status != 200 || !got.Clean {
		t.Errorf("answer %d %q", got.Status, got.Body)
	}
	r.waitLoad(w, 0)
}
