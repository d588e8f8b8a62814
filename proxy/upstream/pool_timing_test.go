package upstream

import (
	"testing"
	"time"
)

// BenchmarkIdle takes a connection and puts it back.
func BenchmarkIdle(b *testing.B) {
	ca := newIssuer(b)
	for _, scheme := range []string{"http", "https"} {
		b.Run(scheme, func(b *testing.B) {
			o := options()
			w := newWorker(b, "127.0.0.1", nil)
			if scheme == "https" {
				o.TLS = trusting(ca)
				w = newWorker(b, "127.0.0.1", ca.server(b, "127.0.0.1"))
			}
			p := testPool(b, scheme+"://"+w.addr, o)
			c, end := dial(b, p, w)
			wantOpen(b, c, end)
			now := time.Now()
			p.Put(c, now)
			b.ReportAllocs()
			for b.Loop() {
				c := p.Idle(now)
				if c == nil {
					b.Fatal("no unused connection")
				}
				p.Put(c, now)
			}
		})
	}
}

// BenchmarkIdleContended has every core take connections and put them back.
func BenchmarkIdleContended(b *testing.B) {
	w := newWorker(b, "127.0.0.1", nil)
	p := testPool(b, "http://"+w.addr, options())
	now := time.Now()
	var conns []*Conn
	for range 32 {
		c, _ := dial(b, p, w)
		conns = append(conns, c)
	}
	for _, c := range conns {
		p.Put(c, now)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if c := p.Idle(now); c != nil {
				p.Put(c, now)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, bm := range []struct{ name, chunk string }{
		{"event", "6e\r\n" + string(make([]byte, 0x6e)) + "\r\n"},
		{"4 KB", "1000\r\n" + string(make([]byte, 0x1000)) + "\r\n"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bm.chunk)))
			p := make([]byte, len(bm.chunk))
			var d Dechunker
			for b.Loop() {
				copy(p, bm.chunk)
				if _, used, _, err := d.Decode(p); used != len(p) || err != nil {
					b.Fatal(used, err)
				}
			}
		})
	}
}
