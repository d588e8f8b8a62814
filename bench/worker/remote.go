package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"
)

// noticeTime bounds what a decode worker tells a prefill worker without waiting
// for an answer.
const noticeTime = 2 * time.Second

// transferClient keeps connections for less time than a worker's server does, so
// that none is found closed.
var transferClient = http.Client{Transport: &http.Transport{
	DialContext:         (&net.Dialer{Timeout: noticeTime}).DialContext,
	MaxIdleConnsPerHost: 64,
	IdleConnTimeout:     keepAlive / 2,
}}

// remoteEngine is a simulated prefill engine in another process, reached through
// the HTTP server of its worker.
type remoteEngine struct{ base, id string }

// kvMessage is the body of POST /kv/take, /kv/renew and /kv/release.
type kvMessage struct {
	EngineID string `json:"engine_id"`
	claim
}

func (e remoteEngine) take(ctx context.Context, c claim) grant {
	var g grant
	if !e.post(ctx, "take", c, &g) {
		// Whether it was granted isn't known, and if ctx has ended nobody asks.
		e.release(c.Key)
		return grant{}
	}
	return g
}

func (e remoteEngine) renew(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	e.post(ctx, "renew", claim{Key: key}, nil)
}

func (e remoteEngine) release(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), noticeTime)
	defer cancel()
	e.post(ctx, "release", claim{Key: key}, nil)
}

// post says whether the answer was 200 and could be read into the pointer v,
// unless that is nil. Why it wasn't makes no difference to a decode worker.
func (e remoteEngine) post(ctx context.Context, what string, c claim, v any) bool {
	body, _ := json.Marshal(kvMessage{e.id, c}) // strings and numbers only
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+"/kv/"+what, bytes.NewReader(body))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := transferClient.Do(r)
	if err != nil {
		return false
	}
	defer got.Body.Close()
	return got.StatusCode == http.StatusOK && (v == nil || json.NewDecoder(got.Body).Decode(v) == nil)
}

// transfers is POST /kv/{what}: what decode workers of other processes ask.
func (w *Worker) transfers(rw http.ResponseWriter, r *http.Request) {
	var m kvMessage
	if err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 1<<16)).Decode(&m); err != nil {
		http.Error(rw, "the body is not a claim: "+err.Error(), http.StatusBadRequest)
		return
	}
	e := findEngine(m.EngineID)
	if e == nil {
		http.Error(rw, "no engine "+m.EngineID+" here", http.StatusNotFound)
		return
	}
	var g grant
	switch r.PathValue("what") {
	case "take":
		g = e.take(r.Context(), m.claim)
	case "renew":
		e.renew(r.Context(), m.Key)
	case "release":
		e.release(m.Key)
	default:
		http.NotFound(rw, r)
		return
	}
	body, _ := json.Marshal(g) // a number and a bool
	_ = write(rw, http.StatusOK, body)
}

// bootstrap is GET /query, by which a router finds the engine ids of a Mooncake
// prefill worker's ranks.
func (w *Worker) bootstrap(rw http.ResponseWriter, _ *http.Request) {
	ranks := make(map[int]object, len(w.engines))
	for rank, e := range w.engines {
		ranks[rank] = object{"engine_id": e.id}
	}
	body, _ := json.Marshal(ranks) // numbers and strings
	_ = write(rw, http.StatusOK, body)
}
