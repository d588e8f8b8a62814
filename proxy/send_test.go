package proxy

import (
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestEarlyAnswer: a worker that answers before it has the whole request, and takes
// no more of it, is heard while it keeps the connection. What it says before its
// answer doesn't count as one.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	const refusal = "HTTP/1.1 413 Too Large\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}"
	for _, tc := range []struct {
		name  string
		early proxytest.Script
	}{
		{"keeps the connection", func(x *proxytest.Exchange) {
			x.Raw(refusal)
			x.Hold()
		}},
		{"shuts its side", func(x *proxytest.Exchange) {
			x.Raw(refusal)
			x.HalfClose()
			x.Hold()
		}},
		{"interim answers first", func(x *proxytest.Exchange) {
			x.Raw("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + refusal)
			x.Hold()
		}},
		{"interim answer long before", func(x *proxytest.Exchange) {
			x.Raw("HTTP/1.1 102 Processing\r\n\r\n")
			x.Sleep(4 * sendSlice)
			x.Raw(refusal)
			x.Hold()
		}},
		{"in two parts", func(x *proxytest.Exchange) {
			x.Raw(refusal[:5])
			x.Sleep(3 * sendSlice)
			x.Raw(refusal[5:])
			x.Hold()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.Silent)
			w.SetEarly(tc.early)
			r := startRouter(t, once(), w)
			c := proxytest.Dial(t, r.addr)
			for range 2 {
				if err := c.Post(chatPath, `"`+strings.Repeat("x", 16<<20)+`"`, jsonType); err != nil {
					t.Fatal(err)
				}
				got, err := c.ReadResponse(patience)
				if err != nil {
					t.Fatal(err)
				}
				if got.Status != 413 || string(got.Body) != `{"a":1}` {
					t.Errorf("answer %d %q, want the worker's 413", got.Status, got.Body)
				}
			}
			r.waitOutcome(actors.ClientError, 2)
			if n := w.Connections(); n < 2 {
				t.Errorf("%d connections: one with half a request was used again", n)
			}
			w.Release()
		})
	}
}

// TestEarlyEnd: a worker that ends its side while it is being written to, and says
// nothing, isn't waited for.
func TestEarlyEnd(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.Silent)
	w.SetEarly(func(x *proxytest.Exchange) {
		x.HalfClose()
		x.Hold()
	})
	r := startRouter(t, once(), w)
	c := proxytest.Dial(t, r.addr)
	if err := c.Post(chatPath, `"`+strings.Repeat("x", 16<<20)+`"`, jsonType); err != nil {
		t.Fatal(err)
	}
	got, err := c.ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, got, 502, "upstream_closed")
	r.waitOutcome(actors.UpstreamReset, 1)
	w.Release()
}

// TestSlowReaderIsNotAnswered: a worker that pauses while it reads, having said
// only that it works, gets all of the request.
func TestSlowReaderIsNotAnswered(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.Echo)
	w.SetEarly(func(x *proxytest.Exchange) {
		x.Raw("HTTP/1.1 102 Processing\r\n\r\n")
		x.Sleep(3 * sendSlice)
	})
	r := startRouter(t, once(), w)
	body := `"` + strings.Repeat("x", 16<<20) + `"`
	c := proxytest.Dial(t, r.addr)
	if err := c.Post("/v1/x", body, jsonType); err != nil {
		t.Fatal(err)
	}
	got, err := c.ReadResponse(farOff) // which is long
	if err != nil {
		t.Fatal(err)
	}
	e, err := proxytest.ReadEcho(got)
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "the body at the worker", e.Body, []byte(body))
}
