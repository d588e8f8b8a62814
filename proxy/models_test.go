package proxy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// heldModels answers with a model when it is let go.
func heldModels(x *proxytest.Exchange) {
	if x.Hold() {
		x.Reply(200, `{"object":"list","data":[{"id":"m"}]}`, jsonType)
	}
}

const oneModel = `{"object":"list","data":[{"id":"m"}]}`

func (r *router) askModels(headers ...proxytest.Header) *proxytest.Client {
	r.t.Helper()
	c := proxytest.Dial(r.t, r.addr)
	if err := c.Get("/v1/models", headers...); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// waitInFlight waits until n requests are being handled.
func (r *router) waitInFlight(n float64) {
	r.t.Helper()
	for end := time.Now().Add(patience); r.metrics.inFlight.Get() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%v requests are handled, want %v", r.metrics.inFlight.Get(), n)
		}
	}
}

// TestModelsAreAskedOnce: however many ask for the models at a time, each worker
// is asked once, and soon after not at all.
func TestModelsAreAskedOnce(t *testing.T) {
	a, b := proxytest.NewWorker(t, heldModels), proxytest.NewWorker(t, heldModels)
	r := startRouter(t, testOptions("round_robin"), a, b)
	clients := []*proxytest.Client{r.askModels()}
	a.WaitInFlight(1, patience)
	b.WaitInFlight(1, patience)
	for range 9 {
		clients = append(clients, r.askModels())
	}
	r.waitInFlight(10)
	other := r.askModels(proxytest.H("Authorization", "Bearer other")) // for whom there may be other models
	r.waitInFlight(11)
	a.Release()
	b.Release()
	for _, c := range clients {
		got, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, got, 200, oneModel)
	}
	a.WaitInFlight(1, patience)
	b.WaitInFlight(1, patience)
	if n, m := a.Requests(), b.Requests(); n != 2 || m != 2 {
		t.Errorf("the workers were asked %d and %d times, want once for each Authorization", n, m)
	}
	wantAnswer(t, r.call("GET", "/v1/models", ""), 200, oneModel)
	a.Release()
	b.Release()
	if got, err := other.ReadResponse(patience); err != nil || string(got.Body) != oneModel {
		t.Errorf("answer %v, %v", got, err)
	}
	a.SetScript(proxytest.JSON(200, `{"data":[{"id":"new"}]}`))
	b.SetScript(proxytest.JSON(500, ``))
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got := r.call("GET", "/v1/models", "")
		if string(got.Body) == `{"object":"list","data":[{"id":"new"}]}` {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("answer %s long after the models have changed", got.Body)
		}
	}
}

// TestModelsLeave: a client that leaves waits no longer, and makes room for one
// that comes.
func TestModelsLeave(t *testing.T) {
	a, b := proxytest.NewWorker(t, heldModels), proxytest.NewWorker(t, heldModels)
	r := startRouter(t, testOptions("round_robin"), a, b)
	var clients []*proxytest.Client
	refused := make(chan *proxytest.Response)
	for i := range modelsWaiters + 1 { // who is the one too many, nobody knows
		c := r.askModels(proxytest.H("Authorization", fmt.Sprint("Bearer ", i%2)))
		clients = append(clients, c)
		go func() {
			if got, err := c.ReadResponse(patience); err == nil {
				refused <- got
			}
		}()
		if i == 0 { // or "Bearer 1" might be the first
			a.WaitInFlight(1, patience)
			b.WaitInFlight(1, patience)
		}
	}
	select {
	case got := <-refused:
		wantProblem(t, got, 503, "models_busy")
	case <-time.After(patience):
		t.Fatalf("nobody was refused of %d", modelsWaiters+1)
	}
	for _, c := range clients {
		c.CloseFIN()
	}
	r.waitInFlight(0)
	last := r.askModels(proxytest.H("Authorization", "Bearer 2"))
	r.waitInFlight(1)
	a.Release()
	b.Release()
	a.WaitFor("the second question", func(c proxytest.Counts) bool { return c.Requests == 2 }, patience)
	b.WaitFor("the second question", func(c proxytest.Counts) bool { return c.Requests == 2 }, patience)
	a.Release()
	b.Release()
	got, err := last.ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, got, 200, oneModel)
	for _, x := range a.Seen() {
		if got := x.Get("Authorization"); x.Path() == "/v1/models" && got == "Bearer 1" {
			t.Error("the worker was asked for clients that had left")
		}
	}
}

// TestModelDeskBounds: the number of lists is bounded whatever clients send, and
// room is made of those that are old.
func TestModelDeskBounds(t *testing.T) {
	d := &modelDesk{lists: make(map[string]*modelList), kept: modelsKept}
	now := time.Now()
	told := func(l *modelList) bool {
		select {
		case <-l.told:
			return true
		default:
			return false
		}
	}
	for i := range modelsLists {
		l := d.enter(fmt.Sprint(i), nil, now)
		if told(l) {
			t.Fatalf("list %d is %v, want one to wait for", i, l.problem)
		}
		d.tell(l, []byte("x"), nil, now)
	}
	if l := d.enter("more", nil, now); l.problem != modelsBusy {
		t.Errorf("problem %v with %d lists, want %v", l.problem, modelsLists, modelsBusy)
	}
	if l := d.enter("0", nil, now); string(l.answer) != "x" {
		t.Errorf("answer %q of a list that is there, want it", l.answer)
	}
	if l := d.enter("more", nil, now.Add(modelsKept)); told(l) || len(d.lists) != 1 {
		t.Errorf("problem %v and %d lists when all are old, want a new one alone", l.problem, len(d.lists))
	}
	for range modelsWaiters - 1 {
		if l := d.enter("more", nil, now); told(l) {
			t.Fatalf("problem %v, want one more to wait", l.problem)
		}
	}
	if l := d.enter("more", nil, now); l.problem != modelsBusy {
		t.Errorf("problem %v with %d that wait, want %v", l.problem, modelsWaiters, modelsBusy)
	}
}

// TestModelDeskEnds: its end calls off what it asks, and tells who waits.
func TestModelDeskEnds(t *testing.T) {
	proxytest.NoLeaks(t)
	w := proxytest.NewWorker(t, proxytest.Silent)
	control := newControlClient(testOptions("round_robin"))
	defer control.close()
	d := newModelDesk(control, nil, modelsKept)
	running := d.list("", []string{w.URL()})
	w.WaitInFlight(1, patience)
	queued := d.list("other", []string{w.URL()})
	ended := make(chan struct{})
	go func() { defer close(ended); d.close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, c := range []<-chan struct{}{ended, running.told, queued.told} {
		select {
		case <-c:
		case <-ctx.Done():
			t.Fatal("the end takes too long")
		}
	}
	for _, l := range []*modelList{running, queued, d.list("late", nil)} {
		if l.problem == nil || l.problem.code != "shutting_down" {
			t.Errorf("problem %v, want shutting_down", l.problem)
		}
	}
	d.leave(queued)
	w.WaitInFlight(0, patience)
}
