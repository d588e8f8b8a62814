package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"loadstar/actors/discovery"

	"k8s.io/client-go/rest"
)

// TestEndlessAnswers: what an API server goes on saying is given up, and told.
func TestEndlessAnswers(t *testing.T) {
	const most = 1 << 16
	write := func(w io.Writer, v object) { _ = json.NewEncoder(w).Encode(v) }
	list := func(w io.Writer, more string) {
		pods := []object{newPod("one", "10.0.0.1"), newPod("two", "10.0.0.2")}
		write(w, object{"kind": "PodList", "apiVersion": "v1", "metadata": object{"resourceVersion": "1", "continue": more}, "items": pods})
	}
	endlessly := func(w io.Writer, text string) {
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
	for _, c := range []struct {
		name        string
		list, watch func(w io.Writer)
		want        string // in the log
		workers     string
	}{
		{
			"list", func(w io.Writer) {
				io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`)
				endlessly(w, `{"metadata":{"name":"a"}},`)
			}, nil, "the answer has more than 65536 bytes", "",
		},
		{"pages", func(w io.Writer) { list(w, "more") }, nil, "there are more than 7", ""},
		{
			"event", func(w io.Writer) { list(w, "") }, func(w io.Writer) {
				io.WriteString(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"`)
				endlessly(w, "aaaaaaaa")
			}, "the answer has more than 65536 bytes", "10.0.0.1:8000 10.0.0.2:8000",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch q := r.URL.Query(); {
				case q.Get("sendInitialEvents") != "":
					w.WriteHeader(http.StatusUnprocessableEntity)
					write(w, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422})
				case q.Get("watch") != "":
					c.watch(w)
				default:
					c.list(w)
				}
			}))
			defer s.Close()
			client, err := newClient(&rest.Config{Host: s.URL}, most)
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{apiServer: &apiServer{t: t}, fleet: &fleet{has: make(map[string]discovery.Worker)}, log: new(logged)}
			r.rec = discovery.New(r.fleet, discovery.Options{Log: slog.New(slog.NewTextHandler(r.log, nil))})
			defer r.rec.Close()
			r.rec.Run("kubernetes", client.Run(Options{Port: 8000, maxPods: 7, backoff: quickly()}))
			r.wait("the error", func() bool { return strings.Contains(r.log.String(), c.want) })
			r.want("then", c.workers)
		})
	}
}

// TestQuiet: what the libraries have to say is for debugging, their errors too, which
// come to Handle without a question.
func TestQuiet(t *testing.T) {
	for _, c := range []struct {
		level slog.Level
		want  string
	}{{slog.LevelInfo, ""}, {slog.LevelDebug, "level=DEBUG msg=x\n"}} {
		var out bytes.Buffer
		q := quiet{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: c.level})}
		if err := q.Handle(context.Background(), slog.NewRecord(time.Time{}, slog.LevelError, "x", 0)); err != nil || out.String() != c.want {
			t.Errorf("at level %v logged %q, %v, want %q", c.level, out.String(), err, c.want)
		}
	}
}
