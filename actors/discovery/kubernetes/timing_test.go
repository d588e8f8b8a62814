package kubernetes

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// cpu is the time that this process has computed.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// comeAndGo has n pods appear one by one and go.
func comeAndGo(tb testing.TB, n int) *rig {
	tb.Helper()
	a := newAPIServer(tb)
	all := make([]object, n)
	for i := range all {
		all[i] = newPod(fmt.Sprint("pod-", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), "app=vllm")
	}
	r := start(a, Options{Selector: "app=vllm"})
	r.wait("a watch", func() bool { return r.openWatches() == 1 })
	for _, want := range []int{n, 0} {
		for _, p := range all {
			if want > 0 {
				a.put(p)
			} else {
				a.remove(p)
			}
		}
		r.wait(fmt.Sprint(want, " workers"), func() bool {
			r.fleet.mu.Lock()
			defer r.fleet.mu.Unlock()
			return len(r.fleet.has) == want
		})
	}
	return r
}

// TestManyPods: each pod that comes and goes is told to the fleet once.
func TestManyPods(t *testing.T) {
	const pods = 200
	r := comeAndGo(t, pods)
	if r.fleet.calls != 2*pods {
		t.Errorf("the fleet was called %d times, want %d", r.fleet.calls, 2*pods)
	}
}

// BenchmarkThousandPods has a thousand pods appear one by one and go. What it computes
// is the fake server's too.
func BenchmarkThousandPods(b *testing.B) {
	for b.Loop() {
		began := cpu()
		comeAndGo(b, 1000)
		b.ReportMetric((cpu() - began).Seconds(), "cpu-s/op")
	}
}
