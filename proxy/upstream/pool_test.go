package upstream

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

func TestNewPool(t *testing.T) {
	for _, tt := range []struct{ name, base, host, prefix, addr string }{
		{"http", "http://worker:8000", "worker:8000", "", "worker:8000"},
		{"http's own port", "http://worker:80", "worker", "", "worker:80"},
		{"http with that of https", "http://worker:443", "worker:443", "", "worker:443"},
		{"https", "https://worker:8443", "worker:8443", "", "worker:8443"},
		{"https's own port", "https://worker:443", "worker", "", "worker:443"},
		{"https with that of http", "https://worker:80", "worker:80", "", "worker:80"},
		{"IPv4", "http://127.0.0.1:8000", "127.0.0.1:8000", "", "127.0.0.1:8000"},
		{"IPv6", "http://[::1]:8000", "[::1]:8000", "", "[::1]:8000"},
		{"IPv6 with http's own port", "http://[::1]:80", "[::1]", "", "[::1]:80"},
		{"IPv6 with https's own port", "https://[2001:db8::1]:443", "[2001:db8::1]", "", "[2001:db8::1]:443"},
		{"IPv6 with a zone", "http://[fe80::1%25eth0]:8000", "[fe80::1]:8000", "", "[fe80::1%eth0]:8000"},
		{"IPv6 with a zone and http's own port", "http://[fe80::1%25eth0]:80", "[fe80::1]", "", "[fe80::1%eth0]:80"},
		{"path", "http://worker:8000/v2/models", "worker:8000", "/v2/models", "worker:8000"},
		{"path with escapes", "http://worker:8000/a%2Fb%20c/+", "worker:8000", "/a%2Fb%20c/+", "worker:8000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := testPool(t, tt.base, options())
			if got := string(p.Host()); got != tt.host {
				t.Errorf("Host() = %q, want %q", got, tt.host)
			}
			if got := string(p.Prefix()); got != tt.prefix {
				t.Errorf("Prefix() = %q, want %q", got, tt.prefix)
			}
			if got := p.network.addr; got != tt.addr {
				t.Errorf("it dials %q, want %q", got, tt.addr)
			}
			if got, want := p.network.tls != nil, strings.HasPrefix(tt.base, "https"); got != want {
				t.Errorf("TLS %v, want %v", got, want)
			}
		})
	}
}

func TestNewPoolRefuses(t *testing.T) {
	for _, base := range []string{"worker:8000", "ftp://worker:21", "unix:///tmp/x", "//worker:8000", "http://[::1", "http://worker:80%zz"} {
		if p, err := NewPool(base, options()); err == nil {
			p.Retire()
			t.Errorf("NewPool(%q): no error, want one", base)
		}
	}
}

func TestReuse(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	p := testPool(t, "http://"+w.addr, options())
	now := time.Now()
	if c := p.Idle(now); c != nil {
		t.Fatal("an unused connection of a new pool, want none")
	}
	c, end := dial(t, p, w)
	if c.Reused() {
		t.Error("Reused() = true of a new connection, want false")
	}
	for range 3 {
		wantOpen(t, c, end)
		p.Put(c, now)
		if c.br != nil {
			t.Error("an unused connection holds on to its read buffer")
		}
		got := p.Idle(now)
		if got != c {
			t.Fatalf("Idle() = %p, want %p, which was put back", got, c)
		}
		if !c.Reused() {
			t.Error("Reused() = false, want true")
		}
		if other := p.Idle(now); other != nil {
			t.Fatal("the same connection was handed out twice")
		}
	}
	wantOpen(t, c, end)
}

// TestBurstGrowsOld checks that few requests use few connections again and again,
// so that what a burst has left over can expire.
func TestBurstGrowsOld(t *testing.T) {
	const burst = hotSize + 5
	w := newWorker(t, "127.0.0.1", nil)
	p := testPool(t, "http://"+w.addr, options())
	then := time.Now()
	now := then
	var all []*Conn
	for range burst {
		c, _ := dial(t, p, w)
		all = append(all, c)
	}
	for _, c := range all {
		p.Put(c, now)
	}
	for range 10 * burst {
		now = now.Add(time.Second)
		var taken []*Conn
		for range hotSize {
			taken = append(taken, p.Idle(now))
		}
		for _, c := range taken {
			p.Put(c, now)
		}
	}
	fresh, old := 0, 0
	for _, c := range all {
		switch c.usedAt {
		case now:
			fresh++
		case then:
			old++
		}
	}
	if fresh != hotSize || old != burst-hotSize {
		t.Errorf("%d were used of late and %d never again, want %d and %d", fresh, old, hotSize, burst-hotSize)
	}
	// All of them are there when they are needed.
	for i := range burst {
		if p.Idle(then) == nil {
			t.Fatalf("%d unused connections, want %d", i, burst)
		}
	}
}

func TestMaxIdle(t *testing.T) {
	for _, maxIdle := range []int{-1, 0, 1, hotSize - 1, hotSize, hotSize + 1, 20} {
		w := newWorker(t, "127.0.0.1", nil)
		o := options()
		o.MaxIdle = maxIdle
		p := testPool(t, "http://"+w.addr, o)
		const extra = 3
		want := max(maxIdle, 0)
		now := time.Now()
		var conns []*Conn
		ends := map[*Conn]net.Conn{}
		for range want + extra {
			c, end := dial(t, p, w)
			conns, ends[c] = append(conns, c), end
		}
		for _, c := range conns {
			p.Put(c, now)
		}
		kept := map[*Conn]bool{}
		for c := p.Idle(now); c != nil; c = p.Idle(now) {
			kept[c] = true
		}
		if len(kept) != want {
			t.Errorf("MaxIdle %d: %d were kept, want %d", maxIdle, len(kept), want)
		}
		for c, end := range ends {
			if !kept[c] {
				wantEnd(t, end)
			}
		}
	}
}

func TestIdleExpires(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	o := options()
	p := testPool(t, "http://"+w.addr, o)
	c, end := dial(t, p, w)
	now := time.Now()
	p.Put(c, now)
	now = now.Add(o.IdleTimeout - 1)
	if got := p.Idle(now); got != c {
		t.Fatalf("just before its time is over: %p, want %p", got, c)
	}
	p.Put(c, now)
	if got := p.Idle(now.Add(o.IdleTimeout)); got != nil {
		t.Fatalf("when its time is over: %p, want none", got)
	}
	wantEnd(t, end)
}

func TestNoIdleTimeoutKeepsNone(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	o := options()
	o.IdleTimeout = 0
	p := testPool(t, "http://"+w.addr, o)
	c, end := dial(t, p, w)
	p.Put(c, time.Now())
	wantEnd(t, end)
	if got := p.Idle(time.Now()); got != nil {
		t.Errorf("Idle() = %p, want none", got)
	}
}

// TestExpire checks that what lies unused for too long is closed though nobody
// asks for it, in both queues, and that the rest is not.
func TestExpire(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	o := options()
	p := testPool(t, "http://"+w.addr, o)
	now := time.Now()
	var conns []*Conn
	var ends []net.Conn
	for range hotSize + 4 {
		c, end := dial(t, p, w)
		conns, ends = append(conns, c), append(ends, end)
	}
	for i, c := range conns {
		if i%2 == 0 {
			p.Put(c, now.Add(-o.IdleTimeout))
		} else {
			p.Put(c, now)
		}
	}
	p.expire(p.hot, now)
	p.expire(p.idle, now)
	for i := 0; i < len(ends); i += 2 {
		wantEnd(t, ends[i])
	}
	if got, want := len(p.hot)+len(p.idle), len(conns)/2; got != want {
		t.Errorf("%d were kept, want %d", got, want)
	}
	for i := 1; i < len(conns); i += 2 {
		if conns[i].br != nil || !conns[i].Quiet() {
			t.Errorf("connection %d was closed, want it kept", i)
		}
	}
}

// TestNewPoolSweeps checks that a pool sweeps both queues by itself.
func TestNewPoolSweeps(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	o := options()
	p, err := NewPool("http://"+w.addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Retire)
	var ends []net.Conn
	for range hotSize + 1 {
		c, end := dial(t, p, w)
		p.Put(c, time.Now().Add(-o.IdleTimeout))
		ends = append(ends, end)
	}
	for _, end := range ends {
		wantEnd(t, end)
	}
}

func TestPutUndrained(t *testing.T) {
	big := strings.Repeat("x", 3*readerSize)
	for _, tt := range []struct {
		name, sent string
		read       func(t *testing.T, c *Conn)
	}{
		{"a byte", "ab", func(t *testing.T, c *Conn) { discard(t, c, 1) }},
		{"a full buffer", big, func(t *testing.T, c *Conn) { discard(t, c, 1) }},
		{"in the wide buffer", big, func(t *testing.T, c *Conn) {
			c.Widen(len(big))
			discard(t, c, len(big)-1)
		}},
		{"beneath the wide buffer", "ab", func(t *testing.T, c *Conn) {
			discard(t, c, 1)
			c.Widen(len(big))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t, "127.0.0.1", nil)
			p := testPool(t, "http://"+w.addr, options())
			c, end := dial(t, p, w)
			if _, err := end.Write([]byte(tt.sent)); err != nil {
				t.Fatal(err)
			}
			tt.read(t, c)
			p.Put(c, time.Now())
			wantEnd(t, end)
			if got := p.Idle(time.Now()); got != nil {
				t.Errorf("Idle() = %p, want none", got)
			}
		})
	}
}

func discard(t *testing.T, c *Conn, n int) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reader().Discard(n); err != nil {
		t.Fatal(err)
	}
}

func TestRetire(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	p := testPool(t, "http://"+w.addr, options())
	var conns []*Conn
	var ends []net.Conn
	for range hotSize + 3 {
		c, end := dial(t, p, w)
		conns, ends = append(conns, c), append(ends, end)
	}
	used, usedEnd := dial(t, p, w)
	for _, c := range conns {
		p.Put(c, time.Now())
	}
	p.Retire()
	p.Retire()
	for _, end := range ends {
		wantEnd(t, end)
	}
	wantOpen(t, used, usedEnd) // its request goes on
	p.Put(used, time.Now())
	wantEnd(t, usedEnd)
	if got := p.Idle(time.Now()); got != nil {
		t.Errorf("Idle() = %p, want none", got)
	}
}

// TestSweepEndsWithClosing plays a sweep that puts a connection back behind the
// back of Retire.
func TestSweepEndsWithClosing(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	p, err := NewPool("http://"+w.addr, options())
	if err != nil {
		t.Fatal(err)
	}
	c, end := dial(t, p, w)
	p.Put(c, time.Now())
	p.retire() // without what Retire closes itself
	wantEnd(t, end)
}

// TestRetireRace retires a pool, from two sides, under others that take
// connections and put them back. Nothing may stay open.
func TestRetireRace(t *testing.T) {
	for range 20 {
		w := newWorker(t, "127.0.0.1", nil)
		p := testPool(t, "http://"+w.addr, options())
		const users = 4
		var ends []net.Conn
		var free []*Conn
		for range 3 * users {
			c, end := dial(t, p, w)
			ends, free = append(ends, end), append(free, c)
		}
		for _, c := range free {
			p.Put(c, time.Now())
		}
		var wg sync.WaitGroup
		for range users {
			wg.Go(func() {
				for range 200 {
					if c := p.Idle(time.Now()); c != nil {
						p.Put(c, time.Now())
					}
				}
			})
		}
		wg.Go(func() {
			for range 200 {
				p.expire(p.hot, time.Now())
				p.expire(p.idle, time.Now())
			}
			p.closeIdle() // as the sweep does at its end
		})
		for range 2 {
			wg.Go(p.Retire)
		}
		wg.Wait()
		for _, end := range ends {
			wantEnd(t, end)
		}
	}
}

func TestDialRefused(t *testing.T) {
	addr := proxytest.Reserve(t)
	p := testPool(t, "http://"+addr, options())
	c, err := p.Dial(t.Context())
	if err == nil {
		c.Close()
		t.Fatal("no error, want one: nobody listens")
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v, want one of the dial that names %s", err, addr)
	}
}

func TestIPv6(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6 loopback:", err)
	}
	ln.Close()
	w := newWorker(t, "::1", nil)
	p := testPool(t, "http://"+w.addr, options())
	if got := string(p.Host()); got != w.addr {
		t.Errorf("Host() = %q, want %q", got, w.addr)
	}
	c, end := dial(t, p, w)
	wantOpen(t, c, end)
}
