package proxy

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

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
		var d net.Dialer
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
