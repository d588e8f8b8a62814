package prefixtree

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// The worst single operations, by the thread's processor time: page faults
// and the collector's assists count, being scheduled away doesn't. What the
// machine itself adds shows in BenchmarkWorstOfNothing.

// BenchmarkWorst times every Match and Insert of 16 kB prompts by itself,
// while the tree grows and as long again when it is full.
func BenchmarkWorst(b *testing.B) {
	for _, count := range counts() {
		for _, s := range shapes {
			b.Run(fmt.Sprintf("%s/prompts=%d", s.name, count), func(b *testing.B) {
				const workers = 512
				p := newPrompts(s.groups(count), 256, 179)
				tree := New(count * 460)
				key := make([]uint64, p.length)
				hits := make([]Hit, 0, workers)
				id := uint64(0)
				reportWorst(b, count*2, func() {
					p.write(key, id)
				}, func() {
					hits = tree.Match(key, hits[:0])
					tree.Insert(key, workerOf(id, workers))
					id++
				})
			})
		}
	}
}

// BenchmarkWorstLongKey is the Insert of an 8 MB prompt into a full tree.
func BenchmarkWorstLongKey(b *testing.B) {
	const count = 100_000
	p := newPrompts(count/20, 256, 179)
	tree := filled(p, count, 64, count*400)
	long := newPrompts(1, 131072, 0)
	key := make([]uint64, long.length)
	id := uint64(0)
	reportWorst(b, 300, func() {
		long.write(key, id)
		id++
		for range 200 { // the reserve comes back
			tree.trim()
		}
	}, func() { tree.Insert(key, 1) })
}

// BenchmarkWorstForget is Forget in steps of 64.
func BenchmarkWorstForget(b *testing.B) {
	for _, count := range counts() {
		b.Run(fmt.Sprintf("prompts=%d", count), func(b *testing.B) {
			p := newPrompts(count/20, 256, 179)
			tree := filled(p, count, 4, count*460)
			w := uint32(0)
			reportWorst(b, count/64, func() {}, func() {
				if tree.Forget(w, 64) {
					w++
				}
			})
		})
	}
}

// BenchmarkWorstOfNothing is the floor: a microsecond of arithmetic.
func BenchmarkWorstOfNothing(b *testing.B) {
	x := uint64(1)
	reportWorst(b, 200_000, func() {}, func() {
		for range 1000 {
			x = x*6364136223846793005 + 1
		}
	})
	if x == 0 {
		b.Error("unreachable, but the loop must be kept")
	}
}

// reportWorst runs op n times, each after an untimed prepare.
func reportWorst(b *testing.B, n int, prepare, op func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took := make([]time.Duration, 0, n*b.N)
	for range n * b.N {
		prepare()
		start := threadTime()
		op()
		took = append(took, threadTime()-start)
	}
	slices.Sort(took)
	us := func(i int) float64 { return float64(took[i].Nanoseconds()) / 1000 }
	b.ReportMetric(us(len(took)/2), "p50-µs")
	b.ReportMetric(us(len(took)*99/100), "p99-µs")
	b.ReportMetric(us(len(took)*999/1000), "p99.9-µs")
	b.ReportMetric(us(len(took)-1), "max-µs")
	b.ReportMetric(0, "ns/op")
}

// threadTime is the processor time of the calling thread.
func threadTime() time.Duration {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&ts)), 0); e != 0 {
		panic(e)
	}
	return time.Duration(ts.Nano())
}
