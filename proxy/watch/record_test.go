package watch

import (
	"bytes"
	"slices"
	"testing"
)

// sealed is a TLS record of n bytes.
func sealed(kind byte, n int) []byte {
	return append([]byte{kind, 3, 3, byte(n >> 8), byte(n)}, make([]byte, n)...)
}

func TestDeparts(t *testing.T) {
	request := sealed(23, 300)
	for _, tc := range []struct {
		name string
		b    []byte
		want bool
	}{
		{"nothing", nil, false},
		{"plain alert", sealed(21, 2), true},
		{"TLS 1.2 alert", sealed(21, 26), true},
		{"TLS 1.3 alert", sealed(23, 19), true},
		{"alert of which only the header has come", sealed(21, 26)[:5], true},
		{"part of a header", sealed(21, 26)[:4], false},
		{"data", request, false},
		{"data, a byte longer than an alert", sealed(23, 20), false},
		{"data, a byte shorter than an alert", sealed(23, 18), false},
		{"key update", sealed(23, 22), false},
		{"data and alert", slices.Concat(request, request, sealed(23, 19)), true},
		{"part of data", request[:100], false},
		{"change of cipher and alert", slices.Concat(sealed(20, 1), sealed(21, 2)), true},
		{"rest of a record that ends like an alert", slices.Concat(request[5:], sealed(23, 19)), false},
		{"no TLS", []byte("GET / HTTP/1.1\r\n\r\n"), false},
		{"unknown version", []byte{21, 4, 0, 0, 2, 1, 0}, false},
		{"impossible length", []byte{21, 3, 3, 0xff, 0xff}, false},
		{"long alert", sealed(21, 1000), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := departs(tc.b); got != tc.want {
				t.Errorf("departs(%x) = %v, want %v", tc.b[:min(len(tc.b), 30)], got, tc.want)
			}
		})
	}
}

// FuzzDeparts: whole records in front of what a client sent change nothing, and
// neither does what comes behind an end that has been seen.
func FuzzDeparts(f *testing.F) {
	f.Add(sealed(23, 19), []byte("x"))
	f.Add(sealed(23, 40), sealed(21, 2))
	f.Fuzz(func(t *testing.T, b, more []byte) {
		got := departs(b)
		if front := departs(append(sealed(22, 100), b...)); front != got {
			t.Errorf("behind a handshake record: %v, want %v", front, got)
		}
		if got && !departs(append(bytes.Clone(b), more...)) {
			t.Error("an end is forgotten when more comes")
		}
	})
}
