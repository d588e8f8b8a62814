package zmq

import (
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loadstar/actors"
)

func TestExpiry(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		c := r.dealer()
		r.ping(c, fields())
		want := Registration{Role: actors.Prefill, HTTPAddress: addr, ZMQAddress: zaddr, TPSize: 1, DPSize: 1}
		if got := r.fleet.have()[want.identity()]; got != want {
			t.Fatalf("after a ping the fleet has %+v, want %+v", got, want)
		}
		const tick = DefaultExpiry / ticks
		r.pass(5*time.Minute+tick/2, c, fields())
		r.ping(c, fields()) // between two ticks
		if got := r.fleet.called(); !slices.Equal(got, []string{"register"}) {
			t.Errorf("after five minutes of pings the fleet was called %v, want [register]", got)
		}
		r.pass(DefaultExpiry-time.Millisecond, nil, nil)
		if len(r.fleet.have()) != 1 {
			t.Error("the worker was removed before its time")
		}
		r.pass(tick+time.Millisecond, nil, nil)
		if len(r.fleet.have()) != 0 {
			t.Error("the worker is still there after its time")
		}
		if r.log.lines("pings stayed away") != 1 {
			t.Error("the log does not say once that pings stayed away")
		}
		r.ping(c, fields())
		if len(r.fleet.have()) != 1 {
			t.Error("a worker that came back is not registered")
		}
	})
}

// A worker whose connection ended is there until its time is over, and a new
// connection carries on.
func TestReconnect(t *testing.T) {
	bubble(t, Options{Expiry: 30 * time.Second}, func(r *rig) {
		for range 10 {
			c := r.dealer()
			r.ping(c, fields())
			c.Close()
			r.pass(20*time.Second, nil, nil)
		}
		if got := r.fleet.called(); !slices.Equal(got, []string{"register"}) {
			t.Errorf("the fleet was called %v, want [register]", got)
		}
		if got := r.Stats().Connections; got != 0 {
			t.Errorf("%d connections are open, want 0", got)
		}
	})
}

func TestRestart(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		c := r.dealer()
		r.ping(c, fields())
		restarted := fields("zmq_address", "192.0.2.40:21002")
		r.ping(c, restarted)
		r.ping(c, restarted)
		if got := r.fleet.called(); !slices.Equal(got, []string{"register", "replace"}) {
			t.Errorf("the fleet was called %v, want [register replace]", got)
		}
		for _, w := range r.fleet.have() {
			if w.ZMQAddress != "192.0.2.40:21002" {
				t.Errorf("the fleet has %+v, want the new ZMQ address", w)
			}
		}
		if got := r.Stats(); got.Pings != 3 || got.Dropped != 0 {
			t.Errorf("got %+v, want 3 pings taken", got)
		}
		if r.log.lines("restarted") != 1 {
			t.Error("the log does not say once that the worker was restarted")
		}
	})
}

func TestMoRIIO(t *testing.T) {
	bubble(t, Options{MoRIIO: true}, func(r *rig) {
		c := r.dealer()
		r.ping(c, fields())                       // no mode: not taken, and does not fix it
		r.ping(c, mori("type", "X"))              // likewise
		r.ping(c, mori("transfer_mode", "WRITE")) // fixes it
		r.ping(c, mori("type", "D"))              // READ
		if got := r.Stats(); got.Mode != Write || got.Prefill != 1 || got.Decode != 0 || got.Pings != 1 || got.Dropped != 3 {
			t.Errorf("got %+v, want WRITE, one prefill worker, 1 ping taken and 3 dropped", got)
		}
		if r.log.lines("role=decode address="+addr+" zmq_address="+zaddr+" transfer_mode=READ") != 1 {
			t.Error("the log does not say once who was refused for its mode")
		}
		r.pass(time.Minute, nil, nil)
		r.ping(r.dealer(), mori("type", "D"))
		if got := r.Stats(); got.Mode != Write || got.Prefill != 0 || got.Decode != 0 {
			t.Errorf("with all workers gone got %+v, want WRITE still and nobody", got)
		}
	})
}

// A bad ping neither ends the connection nor hides the next.
func TestBadPing(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		c := r.dealer()
		for range 1000 {
			r.write(c, "\x00\x01\xC1")
		}
		r.ping(c, fields())
		if got := r.Stats(); got.Prefill != 1 || got.Dropped != 1000 {
			t.Errorf("got %+v, want a prefill worker and 1000 dropped", got)
		}
		if got := r.log.lines("was dropped"); got != factsBurst {
			t.Errorf("%d lines were logged, want %d", got, factsBurst)
		}
		r.pass(factsPeriod, c, fields())
		r.ping(c, fields("type", "E"))
		r.ping(c, fields("type", "E"))
		if got := r.log.lines("skipped=990"); got != 1 {
			t.Errorf("%d lines say what was skipped, want 1", got)
		}
	})
}

// A registration too many is refused, and taken when there is room.
func TestTableFull(t *testing.T) {
	bubble(t, Options{MaxRegistrations: 5}, func(r *rig) {
		c := r.dealer()
		for i := range 20 {
			r.ping(c, fields("http_address", "192.0.2.40:"+strconv.Itoa(8000+i)))
		}
		if got := r.Stats(); got.Prefill != 5 || got.Dropped != 15 {
			t.Errorf("got %+v, want 5 workers and 15 pings dropped", got)
		}
		r.pass(16*time.Second, nil, nil)
		r.ping(c, fields("http_address", "192.0.2.40:8019"))
		if got := len(r.fleet.have()); got != 1 {
			t.Errorf("the fleet has %d workers, want 1", got)
		}
	})
}

// While a call to the fleet lasts, pings of all workers are read, and none of
// them expires.
func TestSlowFleet(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		gate := make(chan struct{})
		r.fleet.gate = gate
		c := r.dealer()
		const workers = 50
		all := func(decode bool) {
			for i := range workers {
				ping := fields("http_address", "192.0.2.40:"+strconv.Itoa(8000+i))
				if decode {
					ping["type"] = "D"
				}
				r.write(c, message(t, ping))
			}
			synctest.Wait()
		}
		all(false)
		for range 20 {
			r.pass(3*time.Second, nil, nil)
			all(false)
			all(true)
		}
		if got := r.Stats(); got.Prefill != workers || got.Decode != workers || got.Pings != 41*workers {
			t.Errorf("got %+v, want %d of each and %d pings", got, workers, 41*workers)
		}
		if got := len(r.fleet.called()); got != 0 {
			t.Errorf("%d calls are over, want 0", got)
		}
		close(gate)
		synctest.Wait()
		if got := len(r.fleet.called()); got != 2*workers || len(r.fleet.have()) != 2*workers {
			t.Errorf("%d calls were made, want %d", got, 2*workers)
		}
	})
}

// A fleet that refuses is asked again until it takes the worker.
func TestFleetRefuses(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.fleet.setRefuse(errNo)
		c := r.dealer()
		r.ping(c, fields())
		r.pass(6*time.Second, c, fields())
		if got := len(r.fleet.called()); got < 5 || got > 8 {
			t.Errorf("%d calls in six seconds, want about one a second", got)
		}
		if r.log.lines("error=no") == 0 {
			t.Error("the log does not say what the fleet said")
		}
		r.fleet.setRefuse(nil)
		r.pass(3*time.Second, c, fields())
		if len(r.fleet.have()) != 1 {
			t.Error("the worker is not registered")
		}
	})
}

// Peers that say nothing, or stop in the middle of a word, or never read, keep
// nobody out and are given up.
func TestIdlePeers(t *testing.T) {
	tests := []struct {
		name  string
		bytes string
		reads bool
		after time.Duration // it is gone
	}{
		{"says nothing", "", true, handshakeLimit},
		{"stops in the greeting", string(greeting[:20]), true, handshakeLimit},
		{"stops in READY", string(greeting[:]) + dealerReady[:9], true, handshakeLimit},
		{"stops after the handshake", string(greeting[:]) + dealerReady, true, 2 * DefaultExpiry},
		{"stops in a frame", string(greeting[:]) + dealerReady + "\x00\x09x", true, 2 * DefaultExpiry},
		{"never reads", "", false, writeLimit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Options{}, func(r *rig) {
				if tt.reads {
					r.write(r.connect(), tt.bytes)
				} else {
					here, there := net.Pipe()
					defer here.Close()
					r.pipes.conns <- there
				}
				worker := r.dealer()
				r.ping(worker, fields())
				if got := r.Stats(); got.Prefill != 1 || got.Connections != 2 {
					t.Errorf("beside it got %+v, want a prefill worker and 2 connections", got)
				}
				r.pass(tt.after+time.Second, worker, fields())
				if got := r.Stats().Connections; got != 1 {
					t.Errorf("after %v %d connections are open, want 1", tt.after, got)
				}
			})
		})
	}
}

// A peer that breaks the protocol is cut off, and the log says why.
func TestProtocolFault(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		c := r.dealer()
		r.ping(c, fields())
		r.write(c, "\x02\x7f\xff\xff\xff\xff\xff\xff\xff")
		synctest.Wait()
		if got := r.Stats(); got.Connections != 0 || got.Prefill != 1 {
			t.Errorf("got %+v, want no connection and the worker still there", got)
		}
		if _, err := io.WriteString(c, "x"); err == nil {
			t.Error("the peer's connection is still open")
		}
		if r.log.lines("a frame has 9223372036854775807 bytes") != 1 {
			t.Error("the log does not say once why the connection was closed")
		}
	})
}

func TestCrowded(t *testing.T) {
	bubble(t, Options{MaxRegistrations: 1}, func(r *rig) {
		var open []net.Conn
		for range peersPerRegistration {
			open = append(open, r.dealer())
		}
		c := r.connect()
		synctest.Wait()
		if _, err := io.WriteString(c, "x"); err == nil {
			t.Error("one connection too many is open")
		}
		if r.log.lines("as many as are allowed are open") != 1 {
			t.Error("the log does not say once that a connection was refused")
		}
		open[0].Close()
		synctest.Wait()
		r.ping(r.dealer(), fields())
		if got := r.Stats(); got.Prefill != 1 {
			t.Errorf("got %+v, want a prefill worker", got)
		}
	})
}

// When no connection can be accepted, the listener waits and tries again.
func TestAcceptFails(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		const fails = 30
		for range fails {
			r.pipes.fails <- errNo
		}
		r.ping(r.dealer(), fields())
		if got := r.Stats().Prefill; got != 1 {
			t.Errorf("%d workers are registered, want 1", got)
		}
		if got := time.Since(r.began); got != fails*acceptPause {
			t.Errorf("%d failures took %v, want %v", fails, got, fails*acceptPause)
		}
		if got := r.log.lines("can be accepted"); got != factsBurst {
			t.Errorf("%d lines were logged, want %d", got, factsBurst)
		}
	})
}

// panicking is a connection that must never be.
type panicking struct{ net.Conn }

func (panicking) Read([]byte) (int, error) { panic("broken") }

func TestPanic(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		here, there := net.Pipe()
		defer here.Close()
		r.pipes.conns <- panicking{there}
		go io.Copy(io.Discard, here)
		synctest.Wait()
		if r.log.lines("error=broken") != 1 || r.Stats().Connections != 0 {
			t.Error("the log does not say once that a reader panicked, or its connection is open")
		}
		r.ping(r.dealer(), fields())
		if got := r.Stats().Prefill; got != 1 {
			t.Errorf("%d workers are registered, want 1", got)
		}
	})
}

// Close waits for the fleet's last call, may be repeated, and leaves the fleet
// as it is.
func TestClose(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.dealer() // a connection in the middle of nothing
		c := r.dealer()
		r.ping(c, fields())
		gate := make(chan struct{})
		r.fleet.gate = gate
		r.ping(c, fields("type", "D"))
		closed := make(chan struct{})
		go func() {
			r.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returned while a call to the fleet was under way")
		default:
		}
		gate <- struct{}{}
		<-closed
		r.Close()
		if got := r.Stats(); got != (Stats{}) {
			t.Errorf("after Close got %+v, want zero", got)
		}
		if got := strings.Join(r.fleet.called(), " "); got != "register register" {
			t.Errorf("the fleet was called %q, want %q", got, "register register")
		}
	})
}
