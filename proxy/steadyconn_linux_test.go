package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// slowClient sends a request and reads rate bytes a second of its answer, more when
// it was kept from it, until the connection ends or stop is closed.
func slowClient(t testing.TB, addr string, trust *tls.Config, rate int, stop <-chan struct{}) (ended chan error) {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	// A large buffer would be read by the kernel, in large steps.
	if err := raw.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	c := raw
	if trust != nil {
		trust = trust.Clone()
		trust.ServerName = "127.0.0.1"
		c = tls.Client(raw, trust)
	}
	if _, err := io.WriteString(c, "POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() {
		defer raw.Close()
		const step = 20 * time.Millisecond
		tick := time.NewTicker(step)
		defer tick.Stop()
		begun, read := time.Now(), int64(0)
		for {
			select {
			case <-stop:
				ended <- nil
				return
			case <-tick.C:
			}
			due := int64(time.Since(begun).Seconds() * float64(rate))
			if _, err := io.CopyN(io.Discard, c, due-read); err != nil {
				ended <- err
				return
			}
			read = due
		}
	}()
	return ended
}

// TestSlowClientIsServed: a client that takes little, but takes it all the time, is
// not cut. The kernel lets the router write again only after a third of what it
// holds has gone, which takes several times as long as a client may take nothing.
func TestSlowClientIsServed(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("x", 64<<10)
	for _, tc := range []struct {
		name string
		tls  bool
		head proxytest.Script
	}{
		{"with a length", false, func(x *proxytest.Exchange) { x.Head(200, proxytest.H("Content-Length", "1000000000")) }},
		{"in chunks", false, func(x *proxytest.Exchange) { x.Head(200, proxytest.H("Transfer-Encoding", "chunked")) }},
		{"in chunks, TLS", true, func(x *proxytest.Exchange) { x.Head(200, proxytest.H("Transfer-Encoding", "chunked")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				tc.head(x)
				for x.Chunk(piece) {
				}
			})
			o := testOptions("round_robin")
			o.Timeouts.ClientWrite = brief
			r := startRouter(t, o, w)
			addr, trust := r.addr, (*tls.Config)(nil)
			if tc.tls {
				var server *tls.Config
				server, trust = certificate(t)
				addr = r.serveTLS(server)
			}
			stop := make(chan struct{})
			ended := slowClient(t, addr, trust, 250_000, stop)
			select {
			case err := <-ended:
				t.Errorf("a client that reads was cut: %v", err)
			case <-time.After(8 * time.Second):
			}
			if got := r.load(w); got != 1 {
				t.Errorf("load %d while the client reads, want 1", got)
			}
			close(stop)
			r.waitOutcome(actors.ClientGone, 1)
			r.waitLoad(w, 0)
		})
	}
}

// serveTLS has the router serve on a second listener, until the test ends.
func (r *router) serveTLS(certs *tls.Config) (addr string) {
	r.t.Helper()
	ln, err := Listen("127.0.0.1:0", 0)
	if err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = r.Serve(ln, certs) }()
	return ln.Addr().String()
}

// connPair returns the two ends of a connection whose buffers are small, the
// accepted one as steady.
func connPair(t testing.TB, patience time.Duration) (client *net.TCPConn, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := (steadyListener{ln, patience, false}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	client = c.(*net.TCPConn)
	if err := client.SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	return client, s
}

// TestSteadyWrite: how one write ends that meets its deadline.
func TestSteadyWrite(t *testing.T) {
	t.Parallel()
	const patience = brief
	for _, tc := range []struct {
		name    string
		reads   bool // the client does, until the write has ended
		end     bool // a deadline for everything comes meanwhile
		already bool // or has come before
		want    bool // that the write goes through
	}{
		{name: "a client that reads", reads: true, want: true},
		{name: "a client that doesn't"},
		{name: "the end comes while it reads", reads: true, end: true},
		{name: "the end came before", reads: true, already: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			client, server := connPair(t, patience)
			over := make(chan error, 1)
			if tc.already {
				server.SetDeadline(time.Unix(1, 0))
			} else if err := server.SetWriteDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			// More than the sender's buffer may grow to, so that a write lasts.
			go func() { _, err := server.Write(make([]byte, 16<<20)); over <- err }()
			read := make(chan int64, 1)
			if tc.reads {
				go func() {
					b := make([]byte, 128<<10)
					n := int64(0)
					for {
						m, err := client.Read(b)
						if n += int64(m); err != nil || n == 16<<20 {
							read <- n
							return
						}
						time.Sleep(40 * time.Millisecond) // in all longer than patience
					}
				}()
			}
			if tc.end {
				time.Sleep(patience / 10)
				server.SetDeadline(time.Unix(1, 0))
			}
			var err error
			select {
			case err = <-over:
			case <-time.After(20 * time.Second):
				t.Fatal("the write doesn't end")
			}
			if (err == nil) != tc.want || err != nil && !isTimeout(err) {
				t.Errorf("the write ended with %v, want success: %v", err, tc.want)
			}
			server.Close()
			if n := int64(0); tc.want {
				if n = <-read; n != 16<<20 {
					t.Errorf("the client got %d bytes, want all", n)
				}
			}
		})
	}
}

// TestSteadyConnIsTransparent: what the watcher and the relay need of a connection
// is there, and what would write past it is not.
func TestSteadyConnIsTransparent(t *testing.T) {
	_, server := connPair(t, time.Second)
	if _, ok := server.(*steadyConn); !ok {
		t.Fatalf("an accepted connection is a %T", server)
	}
	if _, ok := server.(io.ReaderFrom); ok {
		t.Error("it can be copied to past Write")
	}
	if _, ok := server.(interface{ NetConn() net.Conn }); ok {
		t.Error("it looks like TLS")
	}
	if _, ok := server.(interface{ SetLinger(int) error }); !ok {
		t.Error("it can't be reset")
	}
}

// TestLateDeadlines: a deadline that was moved holds where it was moved to, though
// the timer may have been left where it was.
func TestLateDeadlines(t *testing.T) {
	t.Parallel()
	const soon, later = 50 * time.Millisecond, 400 * time.Millisecond
	none := time.Duration(0)
	for _, tc := range []struct {
		name string
		set  []time.Duration // one after the other; none takes the deadline off
		want time.Duration   // after which a read ends without a byte; none if it doesn't
	}{
		{"one", []time.Duration{soon}, soon},
		{"further away", []time.Duration{soon, later}, later},
		{"nearer", []time.Duration{time.Hour, soon}, soon},
		{"away and back", []time.Duration{soon, time.Hour, soon}, soon},
		{"off", []time.Duration{soon, none}, none},
		{"off and on", []time.Duration{soon, none, later}, later},
		{"in the past", []time.Duration{time.Hour, -time.Second}, -time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			client, server := connPair(t, soon) // which a write has once more, for what the kernel took
			begun := time.Now()
			for _, d := range tc.set {
				by := time.Time{}
				if d != none {
					by = begun.Add(d)
				}
				if err := server.SetReadDeadline(by); err != nil {
					t.Fatal(err)
				}
				if err := server.SetWriteDeadline(by); err != nil {
					t.Fatal(err)
				}
			}
			read, wrote := make(chan error, 1), make(chan error, 1)
			go func() { _, err := server.Read(make([]byte, 1)); read <- err }()
			go func() { _, err := server.Write(make([]byte, 16<<20)); wrote <- err }()
			if tc.want == none {
				time.Sleep(later)
				if _, err := client.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				go io.Copy(io.Discard, client)
			}
			for what, over := range map[string]chan error{"read": read, "write": wrote} {
				select {
				case err := <-over:
					if after := time.Since(begun); isTimeout(err) != (tc.want != none) || after < tc.want {
						t.Errorf("the %s ended with %v after %v, want an end after %v", what, err, after, tc.want)
					}
				case <-time.After(10 * time.Second):
					t.Errorf("the %s doesn't end, want an end after %v", what, tc.want)
				}
			}
		})
	}
}
