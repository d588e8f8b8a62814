package worker

import (
	"context"
	"sync"
)

// peer is a prefill engine as a decode worker sees it.
type peer interface {
	// take asks for blocks and waits for them if the claim says so; when ctx ends
	// before they are there, it gives them up.
	take(ctx context.Context, c claim) grant
	// renew says that the request waits in the decode worker's queue.
	renew(ctx context.Context, key string)
	// release says that the blocks are no longer wanted. It outlives the request.
	release(key string)
}

// running is every open engine of this process, by id: the network between them.
var running = struct {
	sync.Mutex
	engines map[string]*engine
}{engines: make(map[string]*engine)}

// announce makes e known to all workers of this process until it is closed.
func (e *engine) announce() {
	running.Lock()
	defer running.Unlock()
	running.engines[e.id] = e
}

func (e *engine) withdraw() {
	running.Lock()
	defer running.Unlock()
	delete(running.engines, e.id)
}

// findEngine returns nil if there is none with that id.
func findEngine(id string) *engine {
	running.Lock()
	defer running.Unlock()
	return running.engines[id]
}

func (e *engine) take(ctx context.Context, c claim) grant {
	reply := make(chan grant, 1)
	e.send(message{kind: messageTake, transfer: &transfer{claim: c, reply: reply}})
	select {
	case g := <-reply:
		return g
	case <-ctx.Done():
		e.release(c.Key)
	case <-e.done:
	}
	return grant{}
}

func (e *engine) renew(_ context.Context, key string) {
	e.send(message{kind: messageRenew, transfer: &transfer{claim: claim{Key: key}}})
}

func (e *engine) release(key string) {
	e.send(message{kind: messageRelease, transfer: &transfer{claim: claim{Key: key}}})
}

// load tells how the claim of a job ended that the engine had room for.
func (e *engine) load(j *job, g grant) {
	e.send(message{kind: messageLoad, job: j, transfer: &transfer{grant: g}})
}
