package actors

import (
	"testing"
	"testing/synctest"
	"time"
)

// A worker that works on several prompts at a time is sent as many as it takes, and
// one engine no more than ever.
func TestWidth(t *testing.T) {
	const prompts = 28 // which one engine does before any has waited for too long
	for _, tc := range []struct {
		name    string
		engines int
		late    time.Duration // from when a prompt is worked off to the first byte
		least   int           // most at the worker at a time, in the end
		most    int
	}{
		{"one engine", 1, 0, 2, 4},
		{"four behind one URL", 4, 0, 5, 16},
		{"one whose first bytes are kept back", 1, 4 * time.Second, 7, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := parking(t, "least_work", 1, func(o *Options) { o.Backlog.Requests = 2 })
				engines, done := make(chan struct{}, tc.engines), make(chan struct{})
				serve := func(i int) {
					defer func() { done <- struct{}{} }()
					l, err := r.Acquire(prompt(r, 40))
					if err != nil {
						t.Error(err)
						return
					}
					engines <- struct{}{}
					time.Sleep(800*time.Millisecond + time.Duration(i*37%100)*time.Millisecond)
					<-engines
					time.Sleep(tc.late)
					l.FirstByte(now(r))
					l.Release(Completed, now(r))
				}
				go serve(0)
				<-done
				for i := range prompts {
					go serve(i)
				}
				got := 0
				for n := range prompts {
					<-done
					synctest.Wait()
					if n >= prompts/3 {
						got = max(got, view(t, r, base(0)).Load)
					}
					if snap(t, r).Room.Parked == 0 {
						for range prompts - n - 1 {
							<-done
						}
						break
					}
				}
				if got < tc.least || got > tc.most {
					t.Errorf("%d at the worker at a time, want %d to %d", got, tc.least, tc.most)
				}
				checkParked(t, r)
			})
		})
	}
}
