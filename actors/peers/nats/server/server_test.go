package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	natsio "github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"loadstar/actors/peers"
	"loadstar/actors/peers/nats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long an event is waited for.
const limit = 20 * time.Second

const secret = "s3cr3t"

// events takes what servers tell.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) tell(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprintf("%+v", e.all)
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// opened opens a server on loopback and waits until it listens.
func opened(t *testing.T, o Options) (s *Server, at Route, told *events) {
	t.Helper()
	told = &events{}
	o.Tell = told.tell
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	s = open(o, 50*time.Millisecond)
	t.Cleanup(s.Close)
	addr, err := s.Await()
	if err != nil {
		t.Fatal(err)
	}
	p := netip.MustParseAddrPort(addr)
	return s, Route{Host: p.Addr().String(), Port: int(p.Port())}, told
}

// ear is a router at a link.
type ear struct {
	link  *nats.Link
	mu    sync.Mutex
	heard map[string]bool
	state peers.LinkState
	news  int // states
}

// Hear implements peers.Receiver.
func (e *ear) Hear(_ peers.Kind, message []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard[string(message)] = true
}

// Lost implements peers.Receiver.
func (e *ear) Lost(int) {}

// Changed implements peers.Receiver.
func (e *ear) Changed(s peers.LinkState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = s
	e.news++
}

func (e *ear) has(message string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard[message]
}

func (e *ear) last() peers.LinkState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

func connected(t *testing.T, o nats.Options) *ear {
	t.Helper()
	e := &ear{heard: make(map[string]bool)}
	o.Group = "g"
	e.link = nats.Open(o, e)
	t.Cleanup(e.link.Close)
	return e
}

// within is a router at a server of its own process.
func within(t *testing.T, s *Server) *ear {
	t.Helper()
	return connected(t, nats.Options{Dial: s.Dial})
}

var rounds atomic.Int64

// wantHeard waits until each of these hears a new word of each other one.
func wantHeard(t *testing.T, all ...*ear) {
	t.Helper()
	round := rounds.Add(1)
	word := func(from *ear) string { return fmt.Sprintf("%p says %d", from, round) }
	eventually(t, "each to hear each other", func() bool {
		done := true
		for _, from := range all {
			for _, to := range all {
				done = done && (from == to || to.has(word(from)))
			}
		}
		if !done {
			for _, from := range all {
				_ = from.link.Publish(peers.Figures, []byte(word(from)))
			}
		}
		return done
	})
}

// hears reports whether e has heard another one.
func (e *ear) hears(other *ear) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for word := range e.heard {
		if strings.HasPrefix(word, fmt.Sprintf("%p says", other)) {
			return true
		}
	}
	return false
}

// Servers that know only one of the others are one cluster, and those that are left stay
// one when that goes. It is found again when it is back. A password that looks like a hash
// is none.
func TestMesh(t *testing.T) {
	o := Options{User: "router", Password: "$2a$10$" + secret, Port: freePort(t, "127.0.0.1")}
	o.Routes = []Route{{"127.0.0.1", 1}}
	a, at, _ := opened(t, o)
	o.Port, o.Routes = 0, []Route{at}
	b, atB, _ := opened(t, o)
	o.Routes = []Route{at, atB}
	c, _, told := opened(t, o)
	earA, earB, earC := within(t, a), within(t, b), within(t, c)
	wantHeard(t, earA, earB, earC)
	a.Close()
	eventually(t, "the loss", func() bool { return !earA.last().Up })
	wantHeard(t, earB, earC)
	o.Port, o.Routes = at.Port, []Route{{"127.0.0.1", 1}}
	again, _, _ := opened(t, o)
	wantHeard(t, within(t, again), earB, earC)
	if strings.Contains(told.text(), secret) {
		t.Errorf("a secret is told: %s", told.text())
	}
}

// names is a resolver that knows one name.
type names struct {
	mu    sync.Mutex
	addrs []string
	asked int
}

func (n *names) is(addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs = addrs
}

// LookupNetIP implements Resolver.
func (n *names) LookupNetIP(context.Context, string, string) (all []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	for _, a := range n.addrs {
		all = append(all, netip.MustParseAddr(a))
	}
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: "peers", IsNotFound: true}
	}
	return all, nil
}

// Servers with one command line, who know each other by one name, find each other:
// whatever the name leads to at first, themselves included, and though pairs were
// content with each other.
func TestOneName(t *testing.T) {
	hosts := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"}
	pairs := [][]string{hosts[:2], hosts[2:]}
	port := freePort(t, hosts...)
	resolvers := []*names{{}, {}}
	var ears []*ear
	for i, host := range hosts {
		s, _, _ := opened(t, Options{
			Host: host, Port: port, User: "router", Password: secret,
			Routes: []Route{{"peers", port}}, Resolver: resolvers[i/2],
		})
		ears = append(ears, within(t, s))
	}
	for _, r := range resolvers {
		eventually(t, "a question without an answer", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.asked > 2
		})
	}
	for i, r := range resolvers {
		r.is(pairs[i]...)
	}
	wantHeard(t, ears[:2]...)
	wantHeard(t, ears[2:]...)
	if ears[0].hears(ears[2]) || ears[3].hears(ears[1]) {
		t.Error("the pairs hear each other, want what follows to connect them")
	}
	for _, r := range resolvers {
		r.is(hosts...)
	}
	wantHeard(t, ears...)
	for i, e := range ears {
		e.mu.Lock()
		if e.news != 1 || !e.state.Up {
			t.Errorf("router %d's link has had %d states, want it to stay as new routes come", i, e.news)
		}
		e.mu.Unlock()
	}
}

// freePort is free at all of these addresses, and below those that the system gives to
// connections.
func freePort(t *testing.T, hosts ...string) int {
	t.Helper()
next:
	for range 100 {
		port := 12000 + rand.IntN(20000)
		for _, h := range hosts {
			ln, err := net.Listen("tcp", net.JoinHostPort(h, fmt.Sprint(port)))
			if errors.Is(err, syscall.EADDRNOTAVAIL) {
				t.Skip("this system has one address for loopback")
			}
			if err != nil {
				continue next
			}
			ln.Close()
		}
		return port
	}
	t.Fatal("no port is free")
	return 0
}

// Clients need what the server asks for; this process doesn't. Nobody is told of it.
func TestClients(t *testing.T) {
	for _, tc := range []struct {
		name      string
		o         Options
		good, bad []string // user info
	}{
		{"open", Options{}, []string{"", "a:b@"}, nil},
		{"user and password", Options{User: "u", Password: secret}, []string{"u:" + secret + "@"}, []string{"", "u:x@", "x:" + secret + "@", secret + "@"}},
		{"token", Options{Token: secret}, []string{secret + "@"}, []string{"", "x@", "u:" + secret + "@", secret + ":@"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, at, told := opened(t, tc.o)
			host := net.JoinHostPort(at.Host, fmt.Sprint(at.Port))
			own := within(t, s)
			for _, u := range tc.good {
				wantHeard(t, own, connected(t, nats.Options{Servers: []string{"nats://" + u + host}}))
			}
			for _, u := range tc.bad {
				if c, err := natsio.Connect("nats://" + u + host); err == nil {
					c.Close()
					t.Errorf("%q is let in", u)
				}
			}
			if len(tc.bad) > 0 {
				eventually(t, "a word of those who were refused", func() bool { return strings.Contains(told.text(), "authentication error") })
			}
			if strings.Contains(told.text(), secret) {
				t.Errorf("a secret is told: %s", told.text())
			}
		})
	}
}

// A server with another password gets no route, and with routes no client gets in.
func TestRoutesRefused(t *testing.T) {
	a, at, told := opened(t, Options{User: "router", Password: secret, Routes: []Route{{"127.0.0.1", 1}}})
	for _, o := range []Options{{User: "router", Password: "x" + secret}, {User: secret, Password: secret}, {}} {
		o.Routes = []Route{at}
		b, _, toldB := opened(t, o)
		eventually(t, "a word of both", func() bool {
			return strings.Contains(told.text(), "authentication error") && strings.Contains(toldB.text(), "Authorization Violation")
		})
		if n := a.nats.NumRoutes() + b.nats.NumRoutes(); n != 0 {
			t.Errorf("%d routes, want none", n)
		}
		if strings.Contains(toldB.text(), secret) {
			t.Errorf("a secret is told: %s", toldB.text())
		}
		b.Close()
	}
	for _, url := range []string{a.nats.Addr().String(), "router:" + secret + "@" + a.nats.Addr().String(), "router:" + secret + "@" + a.addr} {
		if c, err := natsio.Connect("nats://" + url); err == nil {
			c.Close()
			t.Errorf("%s lets a client in", url)
		}
	}
	eventually(t, "a word of the client at the servers' address", func() bool { return strings.Contains(told.text(), "attempted to connect to route port") })
	if strings.Contains(told.text(), "user:router") {
		t.Errorf("a user is told: %s", told.text())
	}
}

// An address that is in use is an error at once, or is waited for.
func TestAddressInUse(t *testing.T) {
	for _, routes := range [][]Route{nil, {{"127.0.0.1", 1}}} {
		t.Run(fmt.Sprint(routes), func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			o := Options{Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port, Routes: routes, Tell: func(Event) {}}
			s := Open(o)
			if _, err := s.Await(); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%v, want the address to be in use", err)
			}
			if _, err := s.Dial(); !errors.Is(err, errNotYet) {
				t.Errorf("connected to no server: %v", err)
			}
			s.Close()

			o.Insist = true
			s = Open(o)
			defer s.Close()
			e := within(t, s)
			eventually(t, "the link to be down", func() bool { return e.last().Err != nil })
			select {
			case <-s.began:
				t.Error("it has begun, want it to wait")
			default:
			}
			ln.Close()
			if _, err := s.Await(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the link", func() bool { return e.last().Up })
		})
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := Open(Options{Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port, Insist: true, Tell: func(Event) {}})
	s.Close()
	if _, err := s.Await(); err == nil {
		t.Error("it listens behind Close")
	}
	if _, err := Open(Options{Host: "192.0.2.1", Port: 1}).Await(); err == nil {
		t.Error("it listens at an address of others")
	}
}

// What the library would end a process with is an error, and nothing of it goes on: an
// address may be taken just before it listens.
func TestFatal(t *testing.T) {
	for _, routes := range [][]Route{nil, {{"127.0.0.1", 1}}} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		o := Options{Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port, Routes: routes}
		s := &Server{opts: o, events: make(chan Event, waitingEvents)}
		began := time.Now()
		if _, err := s.launch(o.library(nil)); err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("%v, want the address to be in use", err)
		}
		if took := time.Since(began); took >= startTimeout {
			t.Errorf("it took %v, want it told at once", took)
		}
	}
}

// Close ends it, whatever is connected, and may be called again.
func TestClose(t *testing.T) {
	s, at, _ := opened(t, Options{})
	mute, err := net.Dial("tcp", net.JoinHostPort(at.Host, fmt.Sprint(at.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	e := within(t, s)
	eventually(t, "the link", func() bool { return e.last().Up })
	began := time.Now()
	s.Close()
	s.Close()
	if took := time.Since(began); took > 2*stopTimeout {
		t.Errorf("it took %v", took)
	}
	if c, err := s.Dial(); err == nil {
		c.Close()
		t.Error("connected behind Close")
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(at.Host, fmt.Sprint(at.Port)))
	if err != nil {
		t.Errorf("the address is not free: %v", err)
	} else {
		ln.Close()
	}
}

// What is longer than any message of a router is refused, and so are more clients than
// there may be routers.
func TestBounds(t *testing.T) {
	s, at, _ := opened(t, Options{})
	e := within(t, s)
	eventually(t, "the link", func() bool { return e.last().Up })
	if err := e.link.Publish(peers.Figures, make([]byte, peers.MaxMessage)); err != nil {
		t.Errorf("the longest message: %v", err)
	}
	if err := e.link.Publish(peers.Figures, make([]byte, peers.MaxMessage+1)); !errors.Is(err, natsio.ErrMaxPayload) {
		t.Errorf("a longer one: %v, want it refused", err)
	}
	var all []*natsio.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	for range maxConnections - 1 {
		c, err := natsio.Connect(net.JoinHostPort(at.Host, fmt.Sprint(at.Port)), natsio.NoReconnect())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if c, err := natsio.Connect(net.JoinHostPort(at.Host, fmt.Sprint(at.Port)), natsio.NoReconnect()); err == nil {
		c.Close()
		t.Error("one more than the limit is let in")
	}
}

// Whoever takes nothing is cut off by what waits for it, before that is much.
func TestWhatWaits(t *testing.T) {
	const size, most = 64 << 10, 12 << 20 // of a message; of all, with what the system's buffers take
	s, at, told := opened(t, Options{Token: secret})
	conn, err := net.Dial("tcp", net.JoinHostPort(at.Host, fmt.Sprint(at.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "CONNECT {\"auth_token\":%q,\"verbose\":false}\r\nSUB g.figures 1\r\n", secret); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the subscription", func() bool { return s.nats.NumSubscriptions() == 1 })
	from, err := natsio.Connect(fmt.Sprintf("nats://%s@%s", secret, net.JoinHostPort(at.Host, fmt.Sprint(at.Port))), natsio.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for n := 0; n < most; n += size {
		if err := from.Publish("g.figures", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a word of it", func() bool { return strings.Contains(told.text(), "Slow Consumer") })
	if !strings.Contains(told.text(), "MaxPending") {
		t.Errorf("it ended for another reason: %s", told.text())
	}
}

// Of many warnings a few are told, with how many were not; the rest is for who wants to
// know all.
func TestLimiter(t *testing.T) {
	now := time.Unix(1000, 0)
	l := limiter{left: burst, at: now}
	count := func(n int, level Level) (told, more int) {
		for range n {
			if e := (Event{Level: level}); l.pass(&e, now) {
				told, more = told+1, more+e.More
			}
		}
		return told, more
	}
	for _, tc := range []struct {
		name       string
		later      time.Duration
		n          int
		level      Level
		told, more int
	}{
		{"a flood", 0, burst + 7, Warning, burst, 0},
		{"details in it", 0, 50, Debug, 50, 0},
		{"soon", refill - 1, 3, Warning, 0, 0},
		{"later", 1, 3, Warning, 1, 10},
		{"two more", 2 * refill, 5, Warning, 2, 2},
		{"half as much again", refill * 3 / 2, 2, Warning, 1, 3},
		{"and the other half", refill / 2, 2, Warning, 1, 1},
		{"long after", time.Hour, burst + 1, Warning, burst, 1},
	} {
		now = now.Add(tc.later)
		if told, more := count(tc.n, tc.level); told != tc.told || more != tc.more {
			t.Errorf("%s: %d told, which tell of %d others, want %d and %d", tc.name, told, more, tc.told, tc.more)
		}
	}
	for _, o := range []Options{{}, {Password: secret}, {Token: secret}} {
		events := make(chan Event, 1)
		newLog(events, &o).Warnf("it says %q", "a"+secret+"b")
		want := `it says "a…b"`
		if o.Password+o.Token == "" {
			want = `it says "as3cr3tb"`
		}
		if e := <-events; e.Text != want {
			t.Errorf("told %s, want %s", e.Text, want)
		}
	}
	full := newLog(make(chan Event), &Options{})
	full.Errorf("nobody %s", "reads")
	full.Fatalf("%d", 1)
	full.Fatalf("%d", 2)
	if err := <-full.fatal; err.Error() != "1" {
		t.Errorf("ended by %v, want the first one", err)
	}
}

// An address is a route as soon as it is named, and stays one for a while when it isn't
// any more.
func TestAddresses(t *testing.T) {
	r := newRoutes([]Route{{"10.0.0.9", 1}, {"a", 2}, {"::1", 3}, {"b", 2}})
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		name   string
		later  time.Duration
		of     int
		answer string
		want   string
	}{
		{"none yet", 0, 0, "", "10.0.0.9:1 [::1]:3"},
		{"two", 0, 0, "10.0.0.1 10.0.0.2", "10.0.0.1:2 10.0.0.2:2 10.0.0.9:1 [::1]:3"},
		{"those of another name", 0, 1, "10.0.0.3 10.0.0.2", "10.0.0.1:2 10.0.0.2:2 10.0.0.3:2 10.0.0.9:1 [::1]:3"},
		{"one in place of another", time.Second, 0, "10.0.0.4 10.0.0.2", "10.0.0.1:2 10.0.0.2:2 10.0.0.3:2 10.0.0.4:2 10.0.0.9:1 [::1]:3"},
		{"back", keepFor, 0, "10.0.0.1 10.0.0.2", "10.0.0.1:2 10.0.0.2:2 10.0.0.3:2 10.0.0.4:2 10.0.0.9:1 [::1]:3"},
		{"not for too long", keepFor, 0, "10.0.0.2", "10.0.0.1:2 10.0.0.2:2 10.0.0.3:2 10.0.0.4:2 10.0.0.9:1 [::1]:3"},
		{"too long", time.Second, 0, "10.0.0.2", "10.0.0.1:2 10.0.0.2:2 10.0.0.3:2 10.0.0.9:1 [::1]:3"},
		{"both names", keepFor + 1, 0, "10.0.0.5", "10.0.0.2:2 10.0.0.3:2 10.0.0.5:2 10.0.0.9:1 [::1]:3"},
	} {
		now = now.Add(tc.later)
		var addrs []netip.Addr
		for _, a := range strings.Fields(tc.answer) {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		r.answer(tc.of, addrs, now)
		if got := strings.Trim(fmt.Sprint(r.addresses()), "[]"); "["+got+"]" != fmt.Sprint(strings.Fields(tc.want)) && got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// Of more addresses than there is room for, those go first that have been missing for
// longest.
func TestTooManyAddresses(t *testing.T) {
	r, now := newRoutes([]Route{{"a", 1}}), time.Unix(1000, 0)
	say := func(addrs ...netip.Addr) {
		now = now.Add(time.Second)
		r.answer(0, addrs, now)
	}
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}) }
	say(at(1))
	say(at(0))
	say()
	var rest []netip.Addr
	for i := range maxAddresses - 1 {
		rest = append(rest, at(2+i))
	}
	say(rest...)
	wantMissing(t, r, at(1))
	say(append(rest, at(1+maxAddresses))...)
	wantMissing(t, r, at(0), at(1))
	say(append(rest, at(1+maxAddresses), at(2+maxAddresses))...)
	wantMissing(t, r, at(0), at(1), at(2+maxAddresses))
}

func wantMissing(t *testing.T, r *routes, missing ...netip.Addr) {
	t.Helper()
	got := r.addresses()
	if len(got) != maxAddresses {
		t.Errorf("%d addresses, want %d", len(got), maxAddresses)
	}
	for _, a := range missing {
		if slices.Contains(got, netip.AddrPortFrom(a, 1)) {
			t.Errorf("%v is kept", a)
		}
	}
}
