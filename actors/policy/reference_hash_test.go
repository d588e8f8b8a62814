package policy

import (
	"encoding/binary"
	"math/bits"
	"testing"
)

func TestReferenceHashVectors(t *testing.T) {
	tests := []struct {
		text   string
		murmur uint64
		furc   uint32
		sum    uint64
	}{
		{"", 0x4d408de62dee109a, 6173600, 0xc0663e029346e424},
		{"a", 0x3d6961c699914c7b, 7695180, 0x29d1ab12ec5fea11},
		{"hello", 0x12da78386346a6d1, 4189030, 0xcf31517d75d7ac16},
		{"header:x-session-id:s1", 0xaf07023919987c18, 5262614, 0xe4f5071aa09e0e3d},
		{"request:", 0x8c010f980365af20, 2268526, 0x13b2f1ae12a8b5ab},
		{"user:u1", 0x6cdacdd43574d6ac, 2787692, 0x34ebcf59a08ad87e},
		{"http://127.0.0.1:28101:0", 0xe07e4a899bf09a88, 8128037, 0xd839f86b833febe9},
		{"http://worker1:8000:159", 0x8aa2881fef7c6df5, 2767859, 0x4e1573f4c8238900},
	}
	var h referenceHasher
	for _, tt := range tests {
		if got := murmur([]byte(tt.text)); got != tt.murmur {
			t.Errorf("murmur(%q) = %#x, want %#x", tt.text, got, tt.murmur)
		}
		got := h.sum([]byte(tt.text))
		if furc := h.furc(); furc != tt.furc {
			t.Errorf("furc(%q) = %d, want %d", tt.text, furc, tt.furc)
		}
		if got != tt.sum {
			t.Errorf("sum(%q) = %#x, want %#x", tt.text, got, tt.sum)
		}
	}
}

// Real keys hardly ever read far into the stream, so the far end is reached with
// streams made up for it.
func TestReferenceHashOddStreams(t *testing.T) {
	tests := []struct {
		name string
		word func(i int) uint64
		want uint32
	}{
		{"every number is the modulus", func(int) uint64 { return ^uint64(0) }, 0},
		{"every number but the last try's", func(i int) uint64 {
			const last = 23 + 31*23*23 + 23 // second bit of the 32nd number
			if i == last/64 {
				return ^(uint64(1) << (last % 64))
			}
			return ^uint64(0)
		}, refModulus - 1<<21},
		{"no bit is set", func(int) uint64 { return 0 }, 0},
		{"only depth 0 has a bit", func(i int) uint64 { return uint64(1) >> min(i, 1) }, 1},
		{"only depth 1 has a bit", func(i int) uint64 { return uint64(2) >> min(2*i, 2) }, 1},
		{"only depth 2 has a bit", func(i int) uint64 { return uint64(4) >> min(3*i, 3) }, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := referenceHasher{known: furcWords}
			for i := range h.words {
				h.words[i] = tt.word(i)
			}
			if got := h.furc(); got != tt.want {
				t.Errorf("furc = %d, want %d", got, tt.want)
			}
		})
	}
}

// slowReferenceHash is the same function word for word, with no state kept.
func slowReferenceHash(key []byte) uint64 {
	const m = 0xc6a4a7935bd1e995
	murmur64a := func(data []byte) uint64 {
		h := uint64(4193360111) ^ uint64(len(data))*m
		for ; len(data) >= 8; data = data[8:] {
			var k uint64
			for i := 7; i >= 0; i-- {
				k = k<<8 | uint64(data[i])
			}
			k *= m
			k ^= k >> 47
			k *= m
			h ^= k
			h *= m
		}
		for i := len(data) - 1; i >= 0; i-- {
			h ^= uint64(data[i]) << (8 * i)
			if i == 0 {
				h *= m
			}
		}
		h ^= h >> 47
		h *= m
		h ^= h >> 47
		return h
	}
	bit := func(i int) uint64 {
		word := murmur64a(key)
		for range i / 64 {
			word = murmur64a(binary.LittleEndian.AppendUint64(nil, word))
		}
		return word >> (i % 64) & 1
	}
	modulus := uint64(1<<23 - 1)
	furc := func() uint64 {
		d := bits.Len64(modulus - 1)
		a := d
		for range 32 {
			for bit(a) == 0 {
				if d == 0 {
					return 0
				}
				d--
				a = d
			}
			a += 23
			num := uint64(1)
			for i := 1; i < d; i++ {
				num = num*2 + bit(a)
				a += 23
			}
			if num < modulus {
				return num
			}
		}
		return 0
	}
	return murmur64a(binary.LittleEndian.AppendUint32(nil, uint32(furc())))
}

func FuzzReferenceHash(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("header:x-session-id:s1"))
	f.Add([]byte("http://10.0.0.1:8000@7:159"))
	f.Add([]byte{0, 0xff, 0x80, 1, 2, 3, 4, 5, 6})
	var h referenceHasher
	f.Fuzz(func(t *testing.T, key []byte) {
		if got, want := h.sum(key), slowReferenceHash(key); got != want {
			t.Errorf("sum(%q) = %#x, want %#x", key, got, want)
		}
	})
}
