package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"loadstar/actors"

	"github.com/valyala/fasthttp"
)

// Bounds of what GET /v1/models, which anybody may call, makes of workers.
const (
	modelsKept     = time.Second        // for how long an answer serves others
	modelsLists    = 64                 // lists, one for each Authorization header
	modelsWaiters  = 64                 // requests that wait for one
	modelsAnswer   = 1 << 20            // bytes of one worker's answer
	modelsPatience = 2 * controlTimeout // of a request
)

var modelsBusy = &problem{
	fasthttp.StatusServiceUnavailable, kindUnavailable, "models_busy",
	"Too many requests ask for the list of models; ask again in a moment.", 1,
}

// modelList is the answer to all who ask with the same Authorization header.
type modelList struct {
	told    chan struct{} // closed when either of these is there
	answer  []byte
	problem *problem

	// For the desk's goroutine.
	auth    string
	bases   []string  // workers to ask
	waiting int       // requests that wait for it
	until   time.Time // when it is too old; zero until it is told
}

// modelDesk asks the fleet for its models, once at a time and for all who wait.
// Its lists belong to one goroutine.
type modelDesk struct {
	control *controlClient
	aliases map[string]alias
	kept    time.Duration // see modelsKept
	inbox   chan modelMessage
	answers chan modelList // of what runs; room for one, which is all there is
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when the goroutine has ended

	// For the goroutine.
	lists   map[string]*modelList // by Authorization header
	running *modelList
	queue   []*modelList // to be run
	waiting int          // requests, for all lists
}

// modelMessage is a request that comes, or one that leaves the list it waits for.
type modelMessage struct {
	auth  string
	bases []string
	reply chan<- *modelList // nil for one that leaves
	left  *modelList
}

func newModelDesk(c *controlClient, aliases map[string]alias, kept time.Duration) *modelDesk {
	d := &modelDesk{
		control: c, aliases: aliases, kept: kept, inbox: make(chan modelMessage), answers: make(chan modelList, 1), done: make(chan struct{}),
		lists: make(map[string]*modelList),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	go d.loop()
	return d
}

// close ends the desk, and whatever it asks. Those who wait are told.
func (d *modelDesk) close() {
	d.cancel()
	<-d.done
}

// list returns the list for an Authorization header, to be waited for. bases are
// whom to ask if nobody has just been.
func (d *modelDesk) list(auth string, bases []string) *modelList {
	reply := make(chan *modelList, 1)
	select {
	case d.inbox <- modelMessage{auth: auth, bases: bases, reply: reply}:
		return <-reply
	case <-d.done:
		return noList(problemOf(actors.ErrStopped))
	}
}

// leave says that a request doesn't wait for a list any longer.
func (d *modelDesk) leave(l *modelList) {
	select {
	case d.inbox <- modelMessage{left: l}:
	case <-d.done:
	}
}

// noList is a list that is told already, and is a problem.
func noList(e *problem) *modelList {
	l := &modelList{told: make(chan struct{}), problem: e}
	close(l.told)
	return l
}

// loop owns the lists.
func (d *modelDesk) loop() {
	defer close(d.done)
	var sweep <-chan time.Time // nil when there is no list
	for {
		select {
		case <-d.ctx.Done():
			d.end()
			return
		case a := <-d.answers:
			d.tell(d.running, a.answer, a.problem, time.Now())
			d.running = nil
		case now := <-sweep:
			d.expire(now)
			sweep = nil
		case m := <-d.inbox:
			if m.reply != nil {
				m.reply <- d.enter(m.auth, m.bases, time.Now())
			} else {
				d.drop(m.left)
			}
		}
		if d.running == nil && len(d.queue) > 0 {
			d.running, d.queue = d.queue[0], d.queue[1:]
			go d.ask(d.running.auth, d.running.bases)
		}
		if sweep == nil && len(d.lists) > 0 {
			sweep = time.After(d.kept)
		}
	}
}

// end waits for what runs, which has been called off, and tells all who wait.
func (d *modelDesk) end() {
	if d.running != nil {
		<-d.answers
		d.queue = append(d.queue, d.running)
	}
	for _, l := range d.queue {
		d.tell(l, nil, problemOf(actors.ErrStopped), time.Now())
	}
}

// enter returns the list for a request.
func (d *modelDesk) enter(auth string, bases []string, now time.Time) *modelList {
	l := d.lists[auth]
	if l != nil && now.Before(l.until) {
		return l
	}
	if l == nil || !l.until.IsZero() {
		d.expire(now)
		if len(d.lists) == modelsLists {
			return noList(modelsBusy)
		}
		l = nil
	}
	if d.waiting == modelsWaiters {
		return noList(modelsBusy)
	}
	if l == nil {
		l = &modelList{told: make(chan struct{}), auth: auth, bases: bases}
		d.lists[auth] = l
		d.queue = append(d.queue, l)
	}
	l.waiting++
	d.waiting++
	return l
}

// drop takes a request out of those that wait for a list. One that nobody waits
// for need not be run.
func (d *modelDesk) drop(l *modelList) {
	if !l.until.IsZero() {
		return
	}
	l.waiting--
	d.waiting--
	if i := slices.Index(d.queue, l); i >= 0 && l.waiting == 0 {
		d.queue = slices.Delete(d.queue, i, i+1)
		delete(d.lists, l.auth)
	}
}

// tell hands a list to all who wait for it.
func (d *modelDesk) tell(l *modelList, answer []byte, e *problem, now time.Time) {
	l.answer, l.problem, l.until = answer, e, now.Add(d.kept)
	d.waiting -= l.waiting
	l.waiting = 0
	close(l.told)
}

// expire forgets lists that are too old.
func (d *modelDesk) expire(now time.Time) {
	for auth, l := range d.lists {
		if !l.until.IsZero() && !now.Before(l.until) {
			delete(d.lists, auth)
		}
	}
}

// ask asks the fleet.
func (d *modelDesk) ask(auth string, bases []string) {
	answers, errs := d.control.askAll(d.ctx, bases, http.MethodGet, "/v1/models", auth, modelsAnswer)
	if !slices.Contains(errs, nil) {
		d.answers <- modelList{problem: &problem{
			fasthttp.StatusBadGateway, kindServer, "models_unavailable", "No worker told which models it serves.", 0,
		}}
		return
	}
	d.answers <- modelList{answer: mustJSON(struct {
		Object string            `json:"object"`
		Data   []json.RawMessage `json:"data"`
	}{"list", mergeModels(answers, d.aliases)})}
}
