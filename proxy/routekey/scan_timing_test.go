package routekey

import (
	"fmt"
	"testing"
)

var shapes = []struct {
	name string
	body []byte
}{
	{"tiny200", tinyBody()},
	{"prose20k", proseBody(20_000)},
	{"tools20k", toolsBody()},
	{"messages20k", shortMessagesBody(150)},
	{"escapes20k", escapedBody(20_000)},
	{"strings20k", escapedStringsBody(20_000)},
	{"tokens20k", tokensBody(20_000)},
	{"objects20k", pairsBody(20_000)},
	{"depth20k", deepBody(20_000)},
	{"members20k", manyMembersBody(20_000)},
	{"prose1M", proseBody(1_000_000)},
	{"escapes1M", escapedBody(1_000_000)},
}

// BenchmarkRead finds the values and hashes nothing.
func BenchmarkRead(b *testing.B) {
	for _, bm := range shapes {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.body)))
			for b.Loop() {
				var v values
				if !v.read(bm.body) {
					b.Fatal("not read")
				}
			}
		})
	}
}

// BenchmarkScan is all that a request costs here.
func BenchmarkScan(b *testing.B) {
	for _, bm := range shapes {
		b.Run(bm.name, func(b *testing.B) {
			var s Scanner
			b.SetBytes(int64(len(bm.body)))
			b.ReportAllocs()
			for b.Loop() {
				if !s.Scan(bm.body) {
					b.Fatal("not read")
				}
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	for _, size := range []int{200, 20_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var v values
			if !v.read(proseBody(size)) {
				b.Fatal("not read")
			}
			var k Key
			b.SetBytes(int64(size))
			for b.Loop() {
				k.fill(seedKey, &v, DefaultLimit)
			}
		})
	}
}
