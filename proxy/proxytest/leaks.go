package proxytest

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// foreverFunctions are the goroutines of fasthttp that end late or never, by the
// functions on their stacks.
var foreverFunctions = []string{
	"github.com/valyala/fasthttp.updateServerDate.func1",
	"github.com/valyala/fasthttp.(*HostClient).connsCleaner",
	"github.com/valyala/fasthttp.(*workerPool).Start.func2",
	"github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean",
}

func leakOptions() []goleak.Option {
	var opts []goleak.Option
	for _, f := range foreverFunctions {
		opts = append(opts, goleak.IgnoreAnyFunction(f))
	}
	return opts
}

// NoLeaks fails the test if goroutines that it started are left at its end. Call
// it first, so that it looks after every other cleanup, and not in parallel
// tests.
func NoLeaks(t testing.TB) {
	t.Helper()
	opts := append(leakOptions(), goleak.IgnoreCurrent())
	t.Cleanup(func() { goleak.VerifyNone(t, opts...) })
}

// NoLeaksMain runs the tests of a package and then fails if goroutines are left.
// It is the body of a TestMain and ends the process.
func NoLeaksMain(m *testing.M) { goleak.VerifyTestMain(m, leakOptions()...) }

// FDs is the number of descriptors that the process has open, or 0 where
// /proc/self/fd does not exist.
func FDs() int {
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(fds) == 0 {
		return 0
	}
	return len(fds) - 1 // the listing's own
}
