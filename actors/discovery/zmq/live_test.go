package zmq

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

// listen starts a listener on a free port.
func listen(t testing.TB, o Options) (*Listener, *fleet) {
	t.Helper()
	f := newFleet()
	l, err := Listen("127.0.0.1:0", f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, f
}

// await waits until a condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// dial opens a connection and shakes hands, without waiting for answers.
func dial(t testing.TB, l *Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, string(greeting[:])+dealerReady); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestListenRefuses(t *testing.T) {
	l, _ := listen(t, Options{})
	taken := l.Addr().String()
	for _, tt := range []struct{ name, addr, want string }{
		{"taken", taken, "cannot listen for workers at " + taken},
		{"no port", "127.0.0.1", "write HOST:PORT"},
		{"no such port", "127.0.0.1:70000", "cannot listen"},
		{"a URL", "tcp://127.0.0.1:30001", "write HOST:PORT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Listen(tt.addr, newFleet(), Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestListenWildcard(t *testing.T) {
	l, err := Listen("*:0", newFleet(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Addr().(*net.TCPAddr); !got.IP.IsUnspecified() {
		t.Errorf("got the address %v, want every interface", got)
	}
}

// An implementation of ZeroMQ that isn't ours is understood, and so is its
// leaving and coming back.
func TestForeignDealer(t *testing.T) {
	l, f := listen(t, Options{})
	for round := range 3 {
		d := zmq4.NewDealer(t.Context(), zmq4.WithID(zmq4.SocketIdentity(zaddr)))
		if err := d.Dial("tcp://" + l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		for _, role := range []string{"P", "D"} {
			if err := d.Send(zmq4.NewMsg(pack(t, fields("type", role)))); err != nil {
				t.Fatal(err)
			}
		}
		await(t, "both pings", func() bool { return l.Stats().Pings == uint64(2*(round+1)) })
		if got := l.Stats(); got.Prefill != 1 || got.Decode != 1 || got.Connections != 1 {
			t.Errorf("got %+v, want a worker of each role on one connection", got)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		await(t, "the connection's end", func() bool { return l.Stats().Connections == 0 })
	}
	await(t, "two calls", func() bool { return len(f.called()) == 2 })
}

// Two hundred workers at once, among as many peers that are up to no good.
func TestManyPeers(t *testing.T) {
	l, f := listen(t, Options{})
	const workers, rounds = 200, 20
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	errs := make(chan error, 2*workers)
	for i := range workers {
		ping := message(t, fields("http_address", fmt.Sprintf("192.0.2.40:%d", 1000+i)))
		evil := []string{"GET / HTTP/1.1\r\n\r\n", string(greeting[:30]), string(greeting[:]) + dealerReady + "\x02\xff\xff\xff\xff\xff\xff\xff\xff", ""}[i%4]
		for _, b := range []string{string(greeting[:]) + dealerReady + strings.Repeat(ping, rounds), evil} {
			go func() {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
				if err == nil {
					_, err = io.WriteString(c, b)
					defer c.Close()
				}
				errs <- err
				<-ctx.Done()
			}()
		}
	}
	for range 2 * workers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	await(t, "all pings", func() bool { return l.Stats().Pings == workers*rounds })
	await(t, "all workers", func() bool { return len(f.have()) == workers })
	if got := len(f.called()); got != workers {
		t.Errorf("the fleet was called %d times, want %d", got, workers)
	}
}

// Close ends connections in every state, those included on which pings stream in.
func TestCloseLive(t *testing.T) {
	l, _ := listen(t, Options{})
	var conns []net.Conn
	for range 20 {
		conns = append(conns, dial(t, l))
	}
	burst := strings.Repeat(message(t, fields()), 100)
	for _, c := range conns[:len(conns)/2] {
		go func() {
			for {
				if _, err := io.WriteString(c, burst); err != nil {
					return
				}
			}
		}()
	}
	await(t, "the connections and pings", func() bool {
		s := l.Stats()
		return s.Connections == len(conns) && s.Pings > 1000
	})
	l.Close()
	for _, c := range conns {
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after Close a connection ends with %v, want its end", err)
		}
	}
}
