package keyring

import (
	"fmt"
	"testing"
)

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 16, 256, MaxKeys} {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			keys := make([]Key, n)
			for i := range keys {
				keys[i] = KeyOf(fmt.Sprint("sk-", i))
			}
			s, err := NewSet(keys...)
			if err != nil {
				b.Fatal(err)
			}
			r, key := NewRing(s), []byte("sk-0123456789012345678901234567890123456789")
			var v Reader
			for b.Loop() {
				v.At(r).Find(key)
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	s, err := NewSet(KeyOf("a"))
	if err != nil {
		b.Fatal(err)
	}
	r := NewRing(s)
	b.RunParallel(func(pb *testing.PB) {
		var v Reader
		for pb.Next() {
			v.At(r)
		}
	})
}
