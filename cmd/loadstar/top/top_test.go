package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstar/proxy/statuspage"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what is due at once, on a busy machine too.
const patience = 20 * time.Second

func noTerminal() (width, height int, ok bool) { return 0, 0, false }

// screenfuls is an Out that a test can wait at.
type screenfuls chan string

func (s screenfuls) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

func (s screenfuls) next(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-s:
		if !strings.Contains(got, want) {
			t.Errorf("output %q, want %q in it", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("no output with %q", want)
	}
}

func TestBase(t *testing.T) {
	for typed, want := range map[string]string{
		"http://127.0.0.1:30000":   "http://127.0.0.1:30000",
		"127.0.0.1:30000":          "http://127.0.0.1:30000",
		"router":                   "http://router",
		"https://router/":          "https://router",
		"https://router/status":    "https://router",
		"https://router/a/status/": "https://router/a",
		"http://[::1]:1/?x#y":      "http://[::1]:1",
	} {
		if got, err := Base(typed); err != nil || got != want {
			t.Errorf("Base(%q) = %q, %v, want %q", typed, got, err, want)
		}
	}
	for _, typed := range []string{"", "ftp://x", "http://", "http://a b", "http://user:secret@x", "user:secret@x", "http://user:secret@x:y"} {
		if got, err := Base(typed); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Base(%q) = %q, %v, want an error that tells no secret", typed, got, err)
		}
	}
}

// TestRun: frames are shown as they come, a router that goes away is asked again,
// and one that then refuses ends it.
func TestRun(t *testing.T) {
	asked := make(chan string, 16)
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("Authorization")
		if n++; n == 3 {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"the key is \u001b[2J wrong"}}`)
			return
		}
		for i := range 2 {
			f := statuspage.Frame{Version: fmt.Sprintf("v%d.%d", n, i), State: "ready"}
			w.Write([]byte(": a comment\n\n"))
			w.Write(f.Event())
		}
	}))
	defer s.Close()
	out := make(screenfuls, 16)
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Options{URL: s.URL, Key: "ak", Out: out, Size: func() (int, int, bool) { return 80, 20, true }})
	}()
	for _, want := range []string{otherScreen, "v1.0", "v1.1", "STALE", "v2.0", "v2.1", "STALE"} {
		out.next(t, want)
	}
	select {
	case err := <-done:
		if want := s.URL + ": status 401: the key is ·[2J wrong"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	case <-time.After(patience):
		t.Fatal("it goes on though it was refused")
	}
	out.next(t, firstScreen)
	if got := <-asked; got != "/status/events Bearer ak" {
		t.Errorf("asked for %q, want the events with the key", got)
	}
}

// TestRunEnds: with its context, also while nothing comes.
func TestRunEnds(t *testing.T) {
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := statuspage.Frame{Version: "v1"}
		w.Write(f.Event())
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(over)
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(screenfuls, 16), make(chan error, 1)
	go func() { done <- Run(ctx, Options{URL: s.URL, Out: out, Size: noTerminal}) }()
	out.next(t, "v1")
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("error %v, want none", err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	<-over
}

// full is an Out that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFull: what can't be written ends it, with an error.
func TestFull(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := statuspage.Frame{Version: "v1"}
		w.Write(f.Event())
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	for _, once := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := Run(ctx, Options{URL: s.URL, Once: once, Out: full{}, Size: noTerminal}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("once %v: error %v, want %v", once, err, syscall.ENOSPC)
		}
	}
}

// TestOnce: one frame without a word to a terminal, or an error.
func TestOnce(t *testing.T) {
	f := statuspage.Frame{Version: "v1", State: "ready"}
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter)
		want   string
		err    string
	}{
		{"frames", func(w http.ResponseWriter) { w.Write(f.Event()); w.Write(f.Event()) }, "Loadstar v1", ""},
		{"no Loadstar", func(w http.ResponseWriter) { w.WriteHeader(404); fmt.Fprint(w, "<html>") }, "", "status 404: what answers there may be no Loadstar"},
		{"a redirect", func(w http.ResponseWriter) { w.Header().Set("Location", "http://x/"); w.WriteHeader(302) }, "", "status 302"},
		{"full", func(w http.ResponseWriter) { w.WriteHeader(503); fmt.Fprint(w, `{"error":{"message":"full"}}`) }, "", "status 503: full"},
		{"no frame", func(http.ResponseWriter) {}, "", "the router has ended the stream"},
		{"something else", func(w http.ResponseWriter) { fmt.Fprint(w, "data: x\n\n") }, "", "no router of this kind"},
		{"without an end of line", func(w http.ResponseWriter) {
			for range 17 {
				w.Write(bytes.Repeat([]byte("x"), 1<<20))
			}
		}, "", "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tc.answer(w) }))
			defer s.Close()
			var out strings.Builder
			err := Run(t.Context(), Options{URL: s.URL, Once: true, Out: &out, Size: func() (int, int, bool) { return 80, 3, true }})
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if got := out.String(); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" || strings.Count(got, "Loadstar") > 1 || strings.Contains(got, "\x1b") {
				t.Errorf("output %q, want %q once", got, tc.want)
			}
		})
	}
	if err := Run(t.Context(), Options{URL: "http://127.0.0.1:1", Once: true, Out: &strings.Builder{}, Size: noTerminal}); err == nil || strings.Count(err.Error(), "127.0.0.1:1") > 2 {
		t.Errorf("error %v of nobody there", err)
	}
}
