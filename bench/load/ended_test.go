package load

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// The tail is what a body ends with, in whatever pieces it comes.
func TestTail(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		keep := random.IntN(40)
		got, whole := tail{keep: keep}, []byte(nil)
		for range random.IntN(20) {
			piece := make([]byte, random.IntN(60))
			for i := range piece {
				piece[i] = byte(random.Uint32())
			}
			got.add(piece)
			whole = append(whole, piece...)
			want := whole[max(0, len(whole)-keep):]
			if !bytes.Equal(got.end(), want) {
				t.Fatalf("the last %d of %d bytes are %q, want %q", keep, len(whole), got.end(), want)
			}
			if len(got.text) > 2*keep {
				t.Fatalf("%d bytes are held, want at most %d", len(got.text), 2*keep)
			}
		}
	}
}

// Every request that ended is told of once, with the end of its answer.
func TestEnded(t *testing.T) {
	const requests = 40
	url := scripted(t, func(_ int, body []byte, w net.Conn) bool {
		var err error
		switch body[0] % 3 {
		case 0:
			_, err = io.WriteString(w, streamHead+chunk(event)+chunk("data: last\n\n"+doneEvent)+lastChunk)
		case 1:
			_, err = io.WriteString(w, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
		default:
			_, _ = io.WriteString(w, streamHead+chunk(event))
			return false
		}
		return err == nil
	})
	tests := []struct {
		name        string
		connections int
		arrivals    Arrivals
	}{
		{"closed", requests, nil},
		{"closed, one after another", 1, nil},
		{"open", requests, Times(make([]time.Duration, requests), 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			got := make(map[uint64]string)
			_, err := Run(t.Context(), Config{
				URL: url, Source: func(n uint64) []byte { return []byte{byte(n)} },
				Connections: tt.connections, Requests: requests, Arrivals: tt.arrivals, Tail: 8, Timeout: 20 * time.Second,
				Ended: func(e Ended) {
					mu.Lock()
					defer mu.Unlock()
					if _, twice := got[e.N]; twice || e.Unsent {
						t.Errorf("request %d is told of again (%v), or as unsent (%v)", e.N, twice, e.Unsent)
					}
					if e.OK != (e.TTFT > 0) {
						t.Errorf("request %d: ok is %v with a first token after %v", e.N, e.OK, e.TTFT)
					}
					got[e.N] = string(e.Tail)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			want := make(map[uint64]string)
			for n := range uint64(requests) {
				want[n] = []string{"[DONE]\n\n", "busy", "s\":[]}\n\n"}[n%3]
			}
			if !maps.Equal(got, want) {
				t.Errorf("the tails are %v, want %v", got, want)
			}
		})
	}
}

// A request that finds no connection is told of as unsent.
func TestEndedUnsent(t *testing.T) {
	release := make(chan struct{})
	url := scripted(t, func(_ int, _ []byte, w net.Conn) bool {
		<-release
		_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return err == nil
	})
	var mu sync.Mutex
	got := make(map[uint64]bool)
	_, err := Run(t.Context(), Config{
		URL: url, Source: func(uint64) []byte { return []byte("x") }, Connections: 1, Arrivals: Times(make([]time.Duration, 3), 1),
		Ended: func(e Ended) {
			mu.Lock()
			defer mu.Unlock()
			got[e.N] = e.Unsent
			if len(got) == 2 {
				close(release)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[uint64]bool{0: false, 1: true, 2: true}; !maps.Equal(got, want) {
		t.Errorf("unsent are %v, want %v", got, want)
	}
}
