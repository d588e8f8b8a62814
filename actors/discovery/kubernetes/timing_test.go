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

// TestThousandPods: a thousand pods appear one by one and go, which costs less than
// five seconds of computing, those of the fake server included.
func TestThousandPods(t *testing.T) {
	const pods = 1000
	a := newAPIServer(t)
	all := make([]object, pods)
	for i := range all {
		all[i] = newPod(fmt.Sprint("pod-", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), "app=vllm")
	}
	r := start(a, Options{Selector: "app=vllm"})
	r.wait("a watch", func() bool { return r.openWatches() == 1 })
	began, wall := cpu(), time.Now()
	has := func(n int) func() bool {
		return func() bool {
			r.fleet.mu.Lock()
			defer r.fleet.mu.Unlock()
			return len(r.fleet.has) == n
		}
	}
	for _, p := range all {
		a.put(p)
	}
	r.wait("all of them", has(pods))
	came, cameWall := cpu()-began, time.Since(wall)
	for _, p := range all {
		a.remove(p)
	}
	r.wait("none of them", has(0))
	all1 := cpu() - began
	t.Logf("%d pods came within %v (%v of computing), and were gone within %v (%v)", pods, cameWall, came, time.Since(wall), all1)
	if all1 > 5*time.Second {
		t.Errorf("%v of computing, want less than 5 s", all1)
	}
	if r.fleet.calls != 2*pods {
		t.Errorf("the fleet was called %d times, want %d", r.fleet.calls, 2*pods)
	}
}
