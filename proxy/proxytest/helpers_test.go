package proxytest

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// within is the time that tests give an event; only a failure takes so long.
const within = 20 * time.Second

func TestMain(m *testing.M) { NoLeaksMain(m) }

// await waits for c to be closed or to give a value.
func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		t.Fatalf("no %s within %v", what, within)
	}
}

// must fails the test at once for an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, c *Client) *Response {
	t.Helper()
	resp, err := c.ReadResponse(within)
	if err != nil {
		t.Fatalf("cannot read the answer: %v", err)
	}
	return resp
}

// fakeTB records what a worker would have said to its test.
type fakeTB struct {
	testing.TB
	mu       sync.Mutex
	errors   []string
	cleanups []func()
}

func (f *fakeTB) Helper()           {}
func (f *fakeTB) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }
func (f *fakeTB) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Error(args ...any) { f.Errorf("%s", fmt.Sprint(args...)) }

func (f *fakeTB) finish() []string {
	for _, fn := range f.cleanups {
		fn()
	}
	return f.errors
}
