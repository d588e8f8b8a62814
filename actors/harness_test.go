package actors

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"loadstar/actors/policy"
)

const second = int64(time.Second)

// patience is how long a test waits for something that must happen and takes
// microseconds: only a hang is that late.
const patience = 20 * time.Second

var errDown = errors.New("down")

// hook is a control that runs a function on the loop, for tests that must look
// at the state or reach what no message reaches.
type hook func(s *state)

func (h hook) apply(s *state) { h(s) }

// onLoop runs f on r's loop and waits until it has.
func onLoop(t testing.TB, r *Registry, f func(s *state)) {
	t.Helper()
	reply := make(chan struct{}, 1)
	if _, ok := ask(r, hook(func(s *state) { f(s); reply <- struct{}{} }), reply); !ok {
		t.Fatal("the registry has ended")
	}
}

// holdLoop makes r's loop wait, so that messages pile up in its inbox. The
// function it returns lets the loop go on and may be called once.
func holdLoop(t testing.TB, r *Registry) (letGo func()) {
	t.Helper()
	held, gate := make(chan struct{}), make(chan struct{})
	if !r.send(message{kind: kindControl, control: hook(func(*state) { close(held); <-gate })}) {
		t.Fatal("the registry has ended")
	}
	<-held
	return func() { close(gate) }
}

// fillInbox puts messages that do nothing into r's inbox until it is full. The
// loop must be held.
func fillInbox(r *Registry) {
	for r.trySend(message{kind: kindControl, control: hook(func(*state) {})}) {
	}
}

// holdTree makes t's loop wait at a reply that nobody takes yet. The function
// it returns takes it.
func holdTree(t testing.TB, tree *Tree) (letGo func()) {
	t.Helper()
	never := make(chan TreeStats)
	if !tree.send(treeMessage{kind: treeStats, stats: never}) {
		t.Fatal("the tree has ended")
	}
	until(t, "the tree to be held", func() bool { return len(tree.inbox) == 0 })
	return func() { <-never }
}

// until waits for a condition that another goroutine is about to make true and
// of which there is no event to wait for.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// finish waits for what must not hang.
func finish(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s hangs", what)
	}
}

// inBackground runs f and returns what is closed when it has ended.
func inBackground(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// options are settings under which nothing but a test's own acts changes what
// is eligible.
func options(policyName string) Options {
	o := Options{
		PolicyOptions: policy.DefaultOptions(),
		Health: HealthOptions{
			FailureThreshold: 3, SuccessThreshold: 2,
			Interval: 10 * time.Second, RetryInterval: time.Second, Timeout: 5 * time.Second,
		},
		Breaker: BreakerOptions{
			FailureThreshold: 5, SuccessThreshold: 2, Timeout: 30 * time.Second, Window: time.Minute,
		},
		Retries:    RetryOptions{Ratio: 0.1, Floor: 10},
		MaxWorkers: 1024,
	}
	for role := range o.Policy {
		o.Policy[role] = policyName
	}
	return o
}

// contained are options with all that contains damage switched on.
func contained(policyName string) Options {
	o := options(policyName)
	o.SlowStart, o.WedgedAfter = 10*time.Second, 8*time.Second
	return o
}

// base is the URL of the i-th worker of a test.
func base(i int) string { return fmt.Sprintf("http://w%d:8000", i) }

// spec describes a regular worker without ranks.
func spec(url string) Spec { return Spec{URL: url, Base: url, Rank: NoRank} }

// start returns a registry that ends with the test, in its bubble. Without the
// cleanup a failed check would leave the loop behind, and synctest would panic
// and take the other tests with it.
func start(t testing.TB, o Options) *Registry {
	t.Helper()
	r, err := NewRegistry(o)
	if err != nil {
		t.Fatalf("NewRegistry: %v", err)
	}
	t.Cleanup(func() { r.Halt() }) // with leases live, if the test wants it so
	return r
}

// fleet returns a registry with n healthy workers.
func fleet(t testing.TB, policyName string, n int) *Registry {
	t.Helper()
	r := start(t, options(policyName))
	for i := range n {
		join(t, r, spec(base(i)))
	}
	return r
}

// adder is a Registry, or a Router in front of one.
type adder interface {
	Add(specs []Spec) ([]WorkerID, error)
	ReportHealth(base string, result error) bool
}

// join adds workers and reports them healthy.
func join(t testing.TB, r adder, specs ...Spec) []WorkerID {
	t.Helper()
	ids, err := r.Add(specs)
	if err != nil {
		t.Fatalf("Add: %v", err)
	}
	for i := range specs {
		if !r.ReportHealth(specs[i].Base, nil) {
			t.Fatalf("%s is not healthy after a good check", specs[i].Base)
		}
	}
	return ids
}

func add(t testing.TB, r adder, specs ...Spec) []WorkerID {
	t.Helper()
	ids, err := r.Add(specs)
	if err != nil {
		t.Fatalf("Add: %v", err)
	}
	return ids
}

type remover interface {
	Remove(url string) ([]Removed, error)
}

func remove(t testing.TB, r remover, url string) []Removed {
	t.Helper()
	removed, err := r.Remove(url)
	if err != nil {
		t.Fatalf("Remove(%s): %v", url, err)
	}
	return removed
}

// acquirer is a Registry or a Router.
type acquirer interface {
	Acquire(q *Request) (Lease, error)
}

func acquire(t testing.TB, r acquirer, q Request) Lease {
	t.Helper()
	l, err := r.Acquire(&q)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return l
}

// acquireN takes n plain leases.
func acquireN(t testing.TB, r acquirer, n int) []Lease {
	t.Helper()
	leases := make([]Lease, n)
	for i := range leases {
		leases[i] = acquire(t, r, Request{Head: uint64(i) * 0x9e3779b97f4a7c15})
	}
	return leases
}

func snap(t testing.TB, r *Registry) Snapshot {
	t.Helper()
	s, err := r.Snapshot(0)
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	return s
}

// view is one worker of a snapshot, which must have it.
func view(t testing.TB, r *Registry, url string) WorkerView {
	t.Helper()
	s := snap(t, r)
	for _, w := range s.Workers {
		if w.URL == url {
			return w
		}
	}
	t.Fatalf("%s is not in the snapshot", url)
	return WorkerView{}
}

func known(t testing.TB, r *Registry, url string) bool {
	t.Helper()
	for _, w := range snap(t, r).Workers {
		if w.URL == url {
			return true
		}
	}
	return false
}

// wantLoad checks a worker's load and that all counters agree with each other.
func wantLoad(t testing.TB, r *Registry, url string, want int) {
	t.Helper()
	if got := view(t, r, url).Load; got != want {
		t.Errorf("load of %s = %d, want %d", url, got, want)
	}
	wantBalanced(t, r)
}

// wantBalanced checks what must hold at every instant.
func wantBalanced(t testing.TB, r *Registry) {
	t.Helper()
	s := snap(t, r)
	sum := 0
	for i := range s.Workers {
		w := &s.Workers[i]
		here := 0
		for p, n := range w.InPhase {
			if n < 0 {
				t.Errorf("%s has %d leases in phase %v, want none below 0", w.URL, n, Phase(p))
			}
			here += n
		}
		if got, want := w.Load, here-w.InPhase[Reserved]-w.InPhase[Parked]; got != want {
			t.Errorf("load of %s = %d, want %d: all phases but reserved and parked", w.URL, got, want)
		}
		sum += here
	}
	if s.Live != sum {
		t.Errorf("live = %d, want %d: the sum of all counters", s.Live, sum)
	}
	if got := s.Granted - s.Returned; got != uint64(sum) {
		t.Errorf("granted - returned = %d, want %d: the sum of all counters", got, sum)
	}
}

// drainEvents takes what events are waiting.
func drainEvents(r *Registry) []Event {
	var all []Event
	for {
		select {
		case e := <-r.Events():
			all = append(all, e)
		default:
			return all
		}
	}
}

func countEvents(all []Event, k EventKind) int {
	n := 0
	for _, e := range all {
		if e.Kind == k {
			n++
		}
	}
	return n
}
