package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
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
	return &controlClient{
		key: o.WorkerKey,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext: dialControl, TLSClientConfig: certs,
				// A worker closes idle connections on its own terms, and a
				// check that meets one would call it sick.
				DisableKeepAlives: true, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// dialControl opens a connection for one call. Its close is a reset, which comes
// behind the answer and spares the port the minute that it would else be kept for.
func dialControl(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: controlTimeout}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	resetOnClose(c)
	return c, nil
}

func (c *controlClient) close() { c.http.CloseIdleConnections() }

// errNotFound is the error of a call to a path that a worker doesn't have.
var errNotFound = errors.New("status 404")

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
		return nil, plainly(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("status %d: the worker does not accept the key given by --api-key", resp.StatusCode)
	case resp.StatusCode == http.StatusNotFound:
		return nil, errNotFound
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	case limit == 0:
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(resp.Body, limit))
}

// plainly is what went wrong with a call, without its URL, which the reader knows.
func plainly(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

// inParallel calls f for each number below n, several at a time, and returns when all
// calls have.
func inParallel(n int, f func(i int)) {
	slots, done := make(chan struct{}, controlParallel), make(chan struct{}, n)
	for i := range n {
		slots <- struct{}{}
		go func() {
			f(i)
			<-slots
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
}

// askAll makes one call to each worker, several at a time, and returns the
// answers in order; a worker that failed has none.
func (c *controlClient) askAll(ctx context.Context, bases []string, method, path, auth string, limit int64) (answers [][]byte, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	answers, errs = make([][]byte, len(bases)), make([]error, len(bases))
	inParallel(len(bases), func(i int) { answers[i], errs[i] = c.call(ctx, method, bases[i]+path, auth, limit) })
	return answers, errs
}

// postAll posts to each worker and returns those that failed.
func (c *controlClient) postAll(bases []string, path, auth string) (failed []string) {
	_, errs := c.askAll(context.Background(), bases, http.MethodPost, path, auth, 0)
	for i, err := range errs {
		if err != nil {
			failed = append(failed, bases[i])
		}
	}
	return failed
}
