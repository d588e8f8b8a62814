package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadstar/bench/worker"
)

// pupil is a least_work router with a simulated worker that tells of its cache.
type pupil struct {
	t            *testing.T
	addr, worker string
	asked        int
}

func newPupil(t *testing.T, cacheBlocks int) *pupil {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(worker.Config{PrefillBlocksPerSecond: 1e6, DecodeBase: time.Microsecond, OutputTokens: 1, CacheBlocks: cacheBlocks})
	go w.Serve(ln)
	t.Cleanup(w.Close)
	p := &pupil{t: t, worker: "http://" + ln.Addr().String()}
	p.addr = running(t, io.Discard, "--policy", "least_work", "--worker-urls", p.worker)
	waitReady(t, p.addr)
	return p
}

// ask sends a prompt of a hundred blocks that no other number has, as a stream and
// as a plain request in turn.
func (p *pupil) ask(n int) {
	p.t.Helper()
	words := strings.Repeat(fmt.Sprintf("word %03d of a prompt that is like no other one; ", n), 128)
	body := fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"%d: %s"}]}`, n, words)
	if p.asked++; p.asked%2 == 0 {
		body = strings.TrimSuffix(body, "}") + `,"stream":true,"stream_options":{"include_usage":true}}`
	}
	answer(p.t, p.addr, body)
}

// metric is the value of a series, the first of its name; -1 if there is none.
func (p *pupil) metric(name string) float64 {
	p.t.Helper()
	for line := range strings.Lines(metricsOf(p.t, p.addr, "vllm_router_request_duration_seconds")) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series == name || strings.HasPrefix(series, name+"{") {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				p.t.Fatalf("%s: %v", line, err)
			}
			return v
		}
	}
	return -1
}

// within waits for a metric to be in a range: what is learnt is learnt behind the
// answer.
func (p *pupil) within(name string, from, to float64) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		v := p.metric(name)
		if v >= from && v <= to {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s is %v, want %v to %v", name, v, from, to)
		}
	}
}

// A worker that has lost its cache is noticed by what its answers tell, and what
// was known of it is forgotten.
func TestLearnRestart(t *testing.T) {
	p := newPupil(t, 1<<20)
	for range 2 {
		for n := range 20 {
			p.ask(n)
		}
	}
	p.within(`loadstar_tree_predictions_total{outcome="hit"}`, 20, 20)
	p.within("loadstar_worker_tree_blocks", 1900, 2300)
	p.within("loadstar_token_bytes", 3.5, 4.5)
	p.within("loadstar_worker_prefill_blocks_per_second", 1, 1e6)
	resp, err := http.Post(p.worker+"/flush_cache", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for n := range 8 { // those asked last: a small cache would have kept them
		p.ask(19 - n)
	}
	p.within("loadstar_tree_restarts_total", 1, 1)
	p.within("loadstar_worker_tree_blocks", 750, 950)
	for n := range 20 {
		p.ask(n)
	}
	p.within(`loadstar_tree_predictions_total{outcome="hit"}`, 28, 28)
	p.within(`loadstar_tree_predictions_total{outcome="miss"}`, 8, 8)
	if got := p.metric("loadstar_prompt_tokens_cached_total"); got < 25*28*60 || got > p.metric("loadstar_prompt_tokens_total") {
		t.Errorf("%v tokens cached, of %v; want more than half", got, p.metric("loadstar_prompt_tokens_total"))
	}
}

// learnCacheSize has a router learn that a worker's cache is small.
func learnCacheSize(t *testing.T) *pupil {
	t.Helper()
	const cacheBlocks = 1500 // of about 3000 that come
	p := newPupil(t, cacheBlocks)
	draws := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p.ask(draws.IntN(30))
	}
	p.within("loadstar_worker_cache_blocks", cacheBlocks*.8, cacheBlocks*2)
	return p
}

// A cache that is smaller than what comes is noticed, and little is predicted of it
// that isn't there.
func TestLearnCacheSize(t *testing.T) {
	p := learnCacheSize(t)
	p.within("loadstar_worker_tree_blocks", 1000, p.metric("loadstar_worker_cache_blocks")+1024)
	p.within("loadstar_tree_restarts_total", 0, 0)
}
