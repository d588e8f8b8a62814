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
// and the collector's assists count, being scheduled away doesn't. A machine
// that is shared adds hiccups of its own. Run these with -benchtime 5x: every
// run repeats the same sequence and each operation counts with its shortest
// time. What is left of the machine shows in BenchmarkWorstOfNothing.

// steps is one run of a sequence: op is timed, prepare before it isn't.
type steps struct {
	prepare, op func()
}

// BenchmarkWorst times every Match and Insert of 16 kB prompts by itself,
// while the tree grows and as long again when it is full.
func BenchmarkWorst(b *testing.B) {
	for _, count := range counts() {
		for _, s := range shapes {
			b.Run(fmt.Sprintf("%s/prompts=%d", s.name, count), func(b *testing.B) {
				reportWorst(b, count*2, func() steps {
					const workers = 512
					p := newPrompts(s.groups(count), 256, 179)
					tree := New(count * 460)
					key := make([]uint64, p.length)
					hits := make([]Hit, 0, workers)
					id := uint64(0)
					return steps{
						func() { p.write(key, id) },
						func() {
							hits = tree.Match(key, hits[:0])
							tree.Insert(key, s.route(p, id, workers))
							id++
						},
					}
				})
			})
		}
	}
}

// BenchmarkWorstLongKey is the Insert of a prompt of 1 MiB, the longest there
// is, into a full tree.
func BenchmarkWorstLongKey(b *testing.B) {
	const count = 100_000
	reportWorst(b, 100, func() steps {
		p := newPrompts(count/20, 256, 179)
		tree := filled(p, shapes[0], count, 64, count*400)
		long := newPrompts(1, maxNew, 0)
		key := make([]uint64, long.length)
		id := uint64(0)
		return steps{
			func() {
				long.write(key, id)
				id++
				for range 200 { // the reserve comes back
					tree.trim()
				}
			},
			func() { tree.Insert(key, 1) },
		}
	})
}

// BenchmarkWorstForget is Forget in steps of 64.
func BenchmarkWorstForget(b *testing.B) {
	for _, count := range counts() {
		b.Run(fmt.Sprintf("prompts=%d", count), func(b *testing.B) {
			reportWorst(b, count/64, func() steps {
				p := newPrompts(count/20, 256, 179)
				tree := filled(p, shapes[0], count, 4, count*460)
				w := uint32(0)
				return steps{func() {}, func() {
					if tree.Forget(w, 64) {
						w++
					}
				}}
			})
		})
	}
}

// BenchmarkWorstOfNothing is the floor: a microsecond of arithmetic.
func BenchmarkWorstOfNothing(b *testing.B) {
	x := uint64(1)
	reportWorst(b, 200_000, func() steps {
		return steps{func() {}, func() {
			for range 1000 {
				x = x*6364136223846793005 + 1
			}
		}}
	})
	if x == 0 {
		b.Error("x became 0, which an odd increment can't make it")
	}
}

// reportWorst runs a sequence of n steps b.N times from its beginning.
func reportWorst(b *testing.B, n int, begin func() steps) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took := make([]time.Duration, n)
	for round := range b.N {
		s := begin()
		for i := range took {
			s.prepare()
			start := threadTime()
			s.op()
			if d := threadTime() - start; round == 0 || d < took[i] {
				took[i] = d
			}
		}
	}
	slices.Sort(took)
	us := func(i int) float64 { return float64(took[i].Nanoseconds()) / 1000 }
	b.ReportMetric(us(n/2), "p50-µs")
	b.ReportMetric(us(n*999/1000), "p99.9-µs")
	b.ReportMetric(us(n-1), "max-µs")
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
