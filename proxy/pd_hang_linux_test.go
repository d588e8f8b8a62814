package proxy

import (
	"net"
	"syscall"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// hangAt has a port take no connection, and not refuse one either: its queue is
// full.
func hangAt(t *testing.T, addr string) {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	at := &syscall.SockaddrInet4{Port: a.Port}
	copy(at.Addr[:], a.IP.To4())
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, at); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c, err := net.DialTimeout("tcp4", addr, 50*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue doesn't fill")
}

// TestPairRescueAfterADialThatHangs: a client that leaves while nobody has seen the
// decode request leaves blocks behind. Another decode worker frees them.
func TestPairRescueAfterADialThatHangs(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		f := startFleet(t, patientChecks(policy), 1, heldPrefill, nil, inPrefill)
		c := f.post(chat(theCase, stream))
		f.waitSeen(1, 0)
		f.until("a place at the decode worker", func() bool { return f.sum().reserved == 1 })
		second := proxytest.NewWorker(t, decodeBeside(rescuing(heldPlain, decodeEither)))
		f.enlist(actors.Decode, second)
		f.before[second.URL()] = loadJSON{}
		hung := f.decode[0]
		f.decode = append(f.decode, second)
		hung.Stop()
		hangAt(t, hung.Addr())
		release(f.prefill...)
		f.until("the decode request to be on its way", func() bool { return f.loads()[hung.URL()].decoding == 2 })
		c.CloseFIN()
		f.waitSeen(1, 1)
		f.wantRescue(f.decodes()[0])
		if got := f.loads(); got[second.URL()].decoding != 1 || got[hung.URL()] != f.before[hung.URL()] {
			t.Errorf("loads %v, want the rescue at %s and nothing new at %s", got, second.URL(), hung.URL())
		}
		f.wantBlocks(0, 0)
		release(second)
		f.untouched()
		f.wantBlocks(1, 0)
		f.ended(actors.ClientGone)
		f.finish()
	})
}

// TestPairDialThatHangs: a decode worker that takes no connection in time is
// replaced by another, which fetches the same blocks.
func TestPairDialThatHangs(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		o := patientChecks(policy)
		o.Timeouts.Connect = 200 * time.Millisecond
		f := startFleet(t, o, 2, heldPrefill, nil, inPrefill)
		c := f.post(chat(theCase, stream))
		f.waitSeen(1, 0)
		hung := f.reserved()
		hung.Stop()
		hangAt(t, hung.Addr())
		release(f.prefill...)
		if got, err := c.ReadResponse(loaded); err != nil || got.Status != 200 {
			t.Errorf("answer %+v, %v; want a whole 200", got, err)
		}
		f.wantSeen(1, 1)
		f.wantHandover(f.decodes()[0])
		f.finish()
		f.wantBlocks(0, 0)
	})
}
