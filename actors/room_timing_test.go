package actors

import (
	"testing"
	"time"
)

// BenchmarkRoom is a request's whole use of the actors where there are limits,
// none of which is reached.
func BenchmarkRoom(b *testing.B) {
	for _, tc := range []struct {
		name string
		room RoomOptions
	}{
		{"off", RoomOptions{}},
		{"live", RoomOptions{MaxLive: 1 << 20}},
		{"worker", RoomOptions{MaxPerWorker: 1 << 20}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			o := options("power_of_two")
			o.Room = tc.room
			r := start(b, o)
			for i := range 64 {
				join(b, r, spec(base(i)))
			}
			q := new(Request)
			b.ReportAllocs()
			for b.Loop() {
				q.Now++
				q.Admission = Admission{}
				l, err := r.Acquire(q)
				if err != nil {
					b.Fatalf("Acquire: %v", err)
				}
				l.Release(Completed, q.Now)
				q.Admission.Release(q.Now)
			}
		})
	}
}

// BenchmarkRoomFull is what a message costs the loop while many wait: a request
// ends and the next one is called, and a new one comes to wait.
func BenchmarkRoomFull(b *testing.B) {
	for _, tc := range []struct {
		name             string
		waiting, tenants int
		room             RoomOptions
	}{
		{"waiting=1000/tenants=1/live", 1000, 1, RoomOptions{MaxLive: 64}},
		{"waiting=1000/tenants=100/live", 1000, 100, RoomOptions{MaxLive: 64}},
		{"waiting=1000/tenants=1/worker", 1000, 1, RoomOptions{MaxPerWorker: 1}},
		{"waiting=1000/tenants=100/worker", 1000, 100, RoomOptions{MaxPerWorker: 1}},
		{"waiting=10000/tenants=300/live", 10000, 300, RoomOptions{MaxLive: 64}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			o := options("power_of_two")
			o.Room = tc.room
			o.Room.QueueSize, o.Room.QueueTimeout = 1<<16, time.Hour
			o.Room.Now = func() int64 { return 0 }
			s, err := newState(o, make(chan Event, eventsSize))
			if err != nil {
				b.Fatal(err)
			}
			for i := range 64 {
				if _, err := s.add([]Spec{spec(base(i))}); err != nil {
					b.Fatal(err)
				}
				s.reportHealth(base(i), "")
			}
			n := 0
			come := func() *Request {
				q := &Request{Tenant: uint64(n % tc.tenants), Now: int64(n)}
				n++
				q.ready()
				s.arrive(q, q.reply, false)
				return q
			}
			var running []*Request
			for range 64 {
				running = append(running, come())
			}
			for range tc.waiting {
				come()
			}
			if s.room.queue.size != tc.waiting {
				b.Fatalf("%d wait, want %d", s.room.queue.size, tc.waiting)
			}
			b.ReportAllocs()
			for b.Loop() {
				old := &running[n%64]
				s.room.queue.tries++
				next := s.room.queue.next(int64(n)).request
				s.giveBack((*old).grant.ticket, Completed, int64(n))
				s.callIn()
				s.dismiss((*old).pass, int64(n))
				s.callIn()
				if next.grant.ticket.gen == 0 {
					b.Fatal("the one to be next was not called")
				}
				*old = next
				come()
			}
		})
	}
}
