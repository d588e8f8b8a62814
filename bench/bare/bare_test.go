package bare

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"loadstar/bench/load"
	"loadstar/bench/worker/null"
)

func serve(t *testing.T, f func(net.Listener) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f(ln) }()
	t.Cleanup(func() {
		ln.Close()
		if err := <-served; err != nil {
			t.Errorf("serving ended with %v, want nil", err)
		}
	})
	return ln.Addr().String()
}

// Answers pass unchanged, whole and streamed.
func TestServe(t *testing.T) {
	workers := []string{serve(t, null.Serve), serve(t, null.Serve)}
	router := serve(t, func(ln net.Listener) error { return Serve(ln, workers) })
	for _, body := range []string{`{"stream":false}`, `{"stream":true}`} {
		direct := post(t, workers[0], body)
		for range 3 {
			if got := post(t, router, body); got != direct {
				t.Errorf("%s: through the forwarder %q, want %q", body, got, direct)
			}
		}
	}
	if got := post(t, router, `{"stream":true}`); !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("the stream ends with %q, want [DONE]", got)
	}
}

// An answer goes back to its pool once: twice, and two requests get the same one.
func TestServeMany(t *testing.T) {
	workers := []string{serve(t, null.Serve)}
	router := serve(t, func(ln net.Listener) error { return Serve(ln, workers) })
	for _, body := range []string{`{"stream":false}`, `{"stream":true}`} {
		r, err := load.Run(t.Context(), load.Config{
			URL: "http://" + router + "/v1/completions", Connections: 16, Requests: 2000,
			Source: func(uint64) []byte { return []byte(body) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.OK != 2000 {
			t.Errorf("%s: %d of 2000 answers are whole; status %v, errors %v", body, r.OK, r.Statuses, r.Errors)
		}
	}
}

func TestServeErrors(t *testing.T) {
	if err := Serve(nil, nil); err == nil || err.Error() != "no worker is given: name at least one host:port" {
		t.Errorf("without workers the error is %v", err)
	}
	router := serve(t, func(ln net.Listener) error { return Serve(ln, []string{"127.0.0.1:1"}) })
	resp, err := http.Post("http://"+router+"/v1/completions", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d for a dead worker, want 502", resp.StatusCode)
	}
}

func post(t *testing.T, address, body string) string {
	t.Helper()
	resp, err := http.Post("http://"+address+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Get("Content-Type") + " " + string(text)
}
