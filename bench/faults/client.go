package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// clientTimeout is longer than anything a scenario waits for.
const clientTimeout = time.Minute

// ask is one request to be sent.
type ask struct {
	group   string // of requests that are reported together
	headers map[string]string
	stream  bool
	prompt  int           // bytes; every prompt is a new one
	leaves  time.Duration // when the client leaves; 0 for never
}

// result is what became of a request. Times of day are since the load's start.
type result struct {
	ask    ask
	at     time.Duration // when it was sent
	late   time.Duration // how much after it was due that was
	first  time.Duration // from at to the first byte of the body, or to the failure
	total  time.Duration // from at to the end
	waited time.Duration // from at to the worker; negative if it told none
	worker int           // the one that answered; negative if none did
	status int           // 0 without an answer
	later  int           // seconds of its Retry-After; 0 without one
	whole  bool          // the answer came to its end
	err    error
}

// good reports whether the client got all that it asked for.
func (r *result) good() bool { return r.status == http.StatusOK && r.whole }

// fate is how a request ended, in a word.
func (r *result) fate() string {
	switch {
	case r.ask.leaves > 0 && r.err != nil:
		return "left"
	case r.good():
		return "ok"
	case r.status == 0:
		return "no answer"
	case !r.whole:
		return fmt.Sprintf("%d cut", r.status)
	}
	return strconv.Itoa(r.status)
}

// client sends requests to one address.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string) *client {
	return &client{url: url, http: &http.Client{
		Timeout: clientTimeout,
		Transport: &http.Transport{
			Proxy: nil, DisableCompression: true,
			MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: 30 * time.Second,
		},
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// send runs one request to its end.
func (c *client) send(ctx context.Context, a ask) result {
	r := result{ask: a, waited: -1, worker: -1}
	if a.leaves > 0 {
		var leave context.CancelFunc
		ctx, leave = context.WithTimeout(ctx, a.leaves)
		defer leave()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/completions", bytes.NewReader(body(a)))
	if err != nil {
		r.err = err
		return r
	}
	for name, value := range a.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	req.Header.Set(headerSent, strconv.FormatInt(start.UnixMicro(), 10))
	resp, err := c.http.Do(req)
	if err != nil {
		r.first, r.total, r.err = time.Since(start), time.Since(start), err
		return r
	}
	defer resp.Body.Close()
	r.status = resp.StatusCode
	if us, err := strconv.ParseInt(resp.Header.Get(headerWaited), 10, 64); err == nil {
		r.waited = max(0, time.Duration(us)*time.Microsecond)
	}
	if n, err := strconv.Atoi(resp.Header.Get(headerWorker)); err == nil {
		r.worker = n
	}
	r.later, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
	last := lastBytes{started: start}
	_, r.err = io.Copy(&last, resp.Body)
	r.total = time.Since(start)
	if r.first = last.first; r.first == 0 {
		r.first = r.total
	}
	r.whole = r.err == nil && (!a.stream || r.status != http.StatusOK || strings.HasSuffix(string(last.tail), "data: [DONE]\n\n"))
	return r
}

// lastBytes keeps the end of what is written to it and when that began.
type lastBytes struct {
	started time.Time
	first   time.Duration
	tail    []byte
}

func (l *lastBytes) Write(b []byte) (int, error) {
	if l.first == 0 {
		l.first = time.Since(l.started)
	}
	const keep = 32
	l.tail = append(l.tail, b[max(0, len(b)-keep):]...)
	l.tail = append(l.tail[:0], l.tail[max(0, len(l.tail)-keep):]...)
	return len(b), nil
}

// body is a request whose prompt nobody has sent before.
func body(a ask) []byte {
	prompt := make([]byte, 0, a.prompt+16)
	for len(prompt) < a.prompt {
		prompt = strconv.AppendUint(prompt, rand.Uint64(), 36)
		prompt = append(prompt, ' ')
	}
	text, _ := json.Marshal(struct { // strings and booleans only
		Model  string `json:"model"`
		Prompt string `json:"prompt"`
		Stream bool   `json:"stream"`
	}{"sim", string(prompt[:a.prompt]), a.stream})
	return text
}

// live asks whether the router lives, which it answers itself, and tells how long
// that took.
func (c *client) live(ctx context.Context) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/liveness", nil)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return time.Since(start), resp.Body.Close()
}
