package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"loadstar/actors"

	"github.com/valyala/fasthttp"
)

// controlClient makes this router's own calls to workers: checks, and questions
// to all of them. It shares nothing with the connections that carry requests,
// follows no redirect and honours no proxy from the environment.
type controlClient struct {
	http *http.Client
	key  string // of the workers; empty for none
}

// Bounds of calls to workers.
const (
	controlTimeout  = 5 * time.Second
	controlParallel = 16
	controlAnswer   = 4 << 20
)

func newControlClient(o Options) *controlClient {
	var certs *tls.Config
	if o.WorkerTLS != nil {
		certs = o.WorkerTLS.Clone()
	}
	d := net.Dialer{Timeout: controlTimeout}
	return &controlClient{
		key: o.WorkerKey,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext: d.DialContext, TLSClientConfig: certs,
				// A worker closes idle connections on its own terms, and a
				// check that meets one would call it sick.
				DisableKeepAlives: true, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (c *controlClient) close() { c.http.CloseIdleConnections() }

// check returns a check that asks for path below a worker's base URL; any 2xx
// is well. lost is told of a base URL at which nothing listens.
func (c *controlClient) check(path string, lost func(base string)) actors.Check {
	auth := ""
	if c.key != "" {
		auth = "Bearer " + c.key
	}
	return func(ctx context.Context, base string) error {
		_, err := c.call(ctx, http.MethodGet, base+path, auth, 0)
		if errors.Is(err, syscall.ECONNREFUSED) {
			lost(base)
		}
		return err
	}
}

// call makes one call and returns at most limit bytes of the answer. An answer
// other than 2xx is an error.
func (c *controlClient) call(ctx context.Context, method, url, auth string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		// url.Error repeats the URL, which the reader knows.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, errors.New("no answer in time")
		}
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("status %d: the worker does not accept the key given by --api-key", resp.StatusCode)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	case limit == 0:
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(resp.Body, limit))
}

// askAll makes one call to each worker, several at a time, and returns the
// answers in order; a worker that failed has none.
func (c *controlClient) askAll(bases []string, method, path, auth string, limit int64) (answers [][]byte, errs []error) {
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	answers, errs = make([][]byte, len(bases)), make([]error, len(bases))
	slots, done := make(chan struct{}, controlParallel), make(chan struct{}, len(bases))
	for i, base := range bases {
		slots <- struct{}{}
		go func() {
			answers[i], errs[i] = c.call(ctx, method, base+path, auth, limit)
			<-slots
			done <- struct{}{}
		}()
	}
	for range bases {
		<-done
	}
	return answers, errs
}

// postAll posts to each worker and returns those that failed.
func (c *controlClient) postAll(bases []string, path, auth string) (failed []string) {
	_, errs := c.askAll(bases, http.MethodPost, path, auth, 0)
	for i, err := range errs {
		if err != nil {
			failed = append(failed, bases[i])
		}
	}
	return failed
}

// models answers with the models of the whole fleet. Where there is one worker,
// its own answer says it best.
func (x *exchange) models() {
	v, err := x.p.router.Snapshot(x.p.now())
	if err != nil {
		x.refuse(problemOf(err))
		return
	}
	bases := membersOf(&v, (*actors.WorkerView).Usable)
	switch len(bases) {
	case 0:
		x.refuse(problemOf(actors.ErrNoWorker))
		return
	case 1:
		x.record.own = false
		x.forward()
		return
	}
	answers, errs := x.p.control.askAll(bases, http.MethodGet, "/v1/models", x.authorization(), controlAnswer)
	if !slices.Contains(errs, nil) {
		x.refuse(&problem{fasthttp.StatusBadGateway, kindServer, "models_unavailable", "No worker told which models it serves.", 0})
		return
	}
	x.answerJSON(fasthttp.StatusOK, struct {
		Object string            `json:"object"`
		Data   []json.RawMessage `json:"data"`
	}{"list", mergeModels(answers)})
}

// mergeModels lists, once each, the models in several answers to /v1/models, as
// the first worker that has one describes it.
func mergeModels(answers [][]byte) []json.RawMessage {
	merged, known := []json.RawMessage{}, map[string]bool{}
	for _, a := range answers {
		var list struct {
			Data []json.RawMessage `json:"data"`
		}
		if json.Unmarshal(a, &list) != nil {
			continue
		}
		for _, m := range list.Data {
			var model struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(m, &model) == nil && !known[model.ID] {
				known[model.ID] = true
				merged = append(merged, bytes.Clone(m))
			}
		}
	}
	return merged
}
