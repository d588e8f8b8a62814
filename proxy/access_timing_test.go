package proxy

import (
	"fmt"
	"hash/maphash"
	"testing"

	"loadstar/proxy/keyring"
)

// BenchmarkClientKey is what the check of a client's key costs a request.
func BenchmarkClientKey(b *testing.B) {
	for _, n := range []int{1, 64, keyring.MaxKeys} {
		lines := make([]string, n)
		for i := range lines {
			lines[i] = fmt.Sprintf("team-%d:sk-%d", i, i)
		}
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			p := &Proxy{opts: Options{ClientKeys: keysOf(b, lines...)}, seed: maphash.MakeSeed()}
			x := &exchange{leg: leg{p: p}, auth: []byte("Bearer sk-0"), path: []byte(chatPath)}
			b.ReportAllocs()
			for b.Loop() {
				if x.barred(nil) != nil {
					b.Fatal("the key is unknown")
				}
			}
		})
	}
}
