package zmq

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for _, tt := range []struct {
		name   string
		fields map[string]any
		moriio bool
	}{{"p2p", fields(), false}, {"moriio", mori(), true}} {
		b.Run(tt.name, func(b *testing.B) {
			ping := pack(b, tt.fields)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(ping, tt.moriio); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Renewals among a thousand workers.
func BenchmarkTablePing(b *testing.B) {
	const workers = 1000
	table, said, n := newTable(workers), make([]Registration, workers), 0
	for i := range said {
		said[i] = worker(i, 0)
		table.ping(said[i])
	}
	for b.Loop() {
		table.ping(said[n%workers])
		n++
	}
}

// Pings over loopback from four connections that send as fast as they can; one
// operation is one ping.
func BenchmarkLive(b *testing.B) {
	const conns, batch = 4, 100
	l, _ := listen(b, Options{})
	burst := strings.Repeat(message(b, fields()), batch)
	bursts := b.N/conns/batch + 1
	b.ResetTimer()
	for range conns {
		c := dial(b, l)
		go func() {
			for range bursts {
				if _, err := io.WriteString(c, burst); err != nil {
					return
				}
			}
		}()
	}
	await(b, "all pings", func() bool { return l.Stats().Pings == uint64(bursts*conns*batch) })
}

// Memory of the router for each connected and registered worker.
func BenchmarkMemory(b *testing.B) {
	const workers = 1000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	for b.Loop() {
		l, f := listen(b, Options{MaxRegistrations: workers})
		conns := make([]net.Conn, workers)
		for i := range conns {
			conns[i] = dial(b, l)
		}
		await(b, "the connections", func() bool { return l.Stats().Connections == workers })
		before := heap()
		for i, c := range conns {
			if _, err := io.WriteString(c, message(b, fields("http_address", fmt.Sprintf("192.0.2.40:%d", 1000+i)))); err != nil {
				b.Fatal(err)
			}
		}
		await(b, "the workers", func() bool { return len(f.have()) == workers })
		b.ReportMetric(float64(heap()-before)/workers, "B/registration")
		l.Close()
	}
}
