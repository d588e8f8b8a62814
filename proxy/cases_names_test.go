package proxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery/dns"
	"loadstar/proxy/proxytest"
)

// serveNames answers every question about a name by the address that lies in at,
// which holds one, with a time to live of an hour, and has this process ask until
// the test ends.
func serveNames(t *testing.T, at chan netip.Addr) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Resolver: was} // or it reads what the test's end sets: a question may outlive who asked
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	over := make(chan struct{})
	t.Cleanup(func() {
		net.DefaultResolver = was
		conn.Close()
		<-over
	})
	go func() {
		defer close(over)
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			a := <-at
			at <- a
			_, _ = conn.WriteTo(nameAnswer(query[:n], a), from) // who asks asks again
		}
	}()
}

// nameAnswer is the answer to a query: its own head and question, and the address
// if that is what it asks for.
func nameAnswer(query []byte, at netip.Addr) []byte {
	const head, typeA, classIN = 12, 1, 1
	end := head
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	end++ // behind the name are type and class
	b := append([]byte(nil), query[:end+4]...)
	b[2], b[3] = 0x81, 0x80 // an answer, and no error
	clear(b[6:head])        // the numbers of records
	if binary.BigEndian.Uint16(query[end:]) == typeA {
		b[7] = 1
		b = append(b, 0xc0, head, 0, typeA, 0, classIN, 0, 0, 3600>>8, 3600&0xff, 0, 4)
		b = append(b, at.AsSlice()...)
	}
	return b
}

// TestCaseB118NamesAreLookedUpAnew: a worker that is known by a name is dialled where
// the name points at that moment, whatever the name's time to live. One that moves
// costs no request.
func TestCaseB118NamesAreLookedUpAnew(t *testing.T) {
	a := proxytest.NewWorker(t, proxytest.JSON(200, `"a"`))
	_, port, err := net.SplitHostPort(a.Addr())
	if err != nil {
		t.Fatal(err)
	}
	proxytest.NewWorkerAt(t, "127.0.0.2:"+port, proxytest.JSON(200, `"b"`))
	at := make(chan netip.Addr, 1)
	at <- netip.MustParseAddr("127.0.0.1")
	serveNames(t, at)
	r := startRouter(t, testOptions("cache_aware"))
	base := "http://worker.example.test:" + port
	if _, err := r.AddWorker(WorkerSpec{URL: base}); err != nil {
		t.Fatal(err)
	}
	r.waitHealthy(1)
	for range 3 {
		want200(t, ask(t, r, chatPath, chat("hi", false)), `"a"`)
	}
	wantValues(t, a.Seen()[0], "Host", "worker.example.test:"+port)

	<-at
	at <- netip.MustParseAddr("127.0.0.2")
	a.Kill()
	for range 10 {
		want200(t, ask(t, r, chatPath, chat("hi", false)), `"b"`)
	}
	if v := r.snapshot(); len(v.Workers) != 1 || v.Workers[0].URL != base || !v.Workers[0].Healthy {
		t.Errorf("workers%s, want the one, by its name, healthy", describe(&v))
	}
}

// someAddresses answers every question about a name by the addresses that lie in it.
type someAddresses chan []netip.Addr

func (a someAddresses) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	all := <-a
	a <- all
	return all, nil
}

func (someAddresses) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, errTestDown
}

// TestCaseB118NameOfManyWorkers: each address of a name is a worker. One that moves is
// used where it went, and costs no request where it was, though it is gone there before
// the name says so.
func TestCaseB118NameOfManyWorkers(t *testing.T) {
	_, port, err := net.SplitHostPort(proxytest.Reserve(t))
	if err != nil {
		t.Fatal(err)
	}
	var workers []*proxytest.Worker
	var addrs []netip.Addr
	for i := range 3 {
		at := netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i)})
		w := proxytest.NewWorkerAt(t, net.JoinHostPort(at.String(), port), proxytest.JSON(200, fmt.Sprint(i)))
		workers, addrs = append(workers, w), append(addrs, at)
	}
	r := startRouter(t, testOptions("round_robin"))
	answers := make(someAddresses, 1)
	answers <- addrs[:2]
	q, err := dns.ParseQuery("workers.example.test:" + port)
	if err != nil {
		t.Fatal(err)
	}
	r.Sources().Run("dns/"+q.String(), dns.Run(q, dns.Options{Roles: actors.RolesOf(actors.Regular), Every: 20 * time.Millisecond, Resolver: answers}))
	r.waitHealthy(2)
	answered := func() (by [3]int) {
		for range 6 {
			var i int
			got := ask(t, r, chatPath, chat("hi", false))
			if _, err := fmt.Sscan(string(got.Body), &i); err != nil || got.Status != 200 {
				t.Fatalf("answer %d %q, want 200 of a worker", got.Status, got.Body)
			}
			by[i]++
		}
		return by
	}
	if got := answered(); got != [3]int{3, 3, 0} {
		t.Errorf("the workers answered %v, want 3, 3 and 0", got)
	}
	workers[0].Kill()
	if got := answered(); got != [3]int{0, 6, 0} {
		t.Errorf("the workers answered %v while one is gone, want all of the other", got)
	}
	<-answers
	answers <- addrs[1:]
	r.wait("the worker that is gone to leave", func(v *actors.Snapshot) bool {
		usable := 0
		for i := range v.Workers {
			if w := &v.Workers[i]; w.URL != workers[0].URL() && w.Usable() {
				usable++
			}
		}
		return len(v.Workers) == 2 && usable == 2
	})
	if got := answered(); got != [3]int{0, 3, 3} {
		t.Errorf("the workers answered %v afterwards, want 0, 3 and 3", got)
	}
}
