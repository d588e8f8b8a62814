package actors

import "loadstar/prefixtree"

// Usage is what a worker has told of a prompt, in tokens.
type Usage struct {
	Prompt int
	Cached int // found in its cache; below 0 when it didn't say
}

const (
	// learnBlocks is the shortest prompt, and the shortest prediction, of which there
	// is something to learn: engines keep whole blocks of theirs, and templates add
	// tokens. Beyond most, blocks may have been left out.
	learnBlocks     = 32
	learnBlocksMost = 1 << 14

	blockBytes = 64

	maxMeasured = 64 // whose tokens are measured; there may be others

	// Prompts with more or fewer bytes to a token are not text.
	tokenBytesLeast, tokenBytesMost = 0.5, 32
	tokenDecay                      = 0.98 // weight of the past, per answer

	// predictions is how many are remembered until their answers have come. A later
	// one takes the place of one that it falls on.
	predictions = 4096
)

// expectation is what the tree has predicted for a lease.
type expectation struct {
	open     bool // nothing has been told yet
	ticket   ticket
	worker   uint32
	blocks   int // of the prompt
	known    int // of those, at the worker
	distance int
	before   uint32 // the insert that used the last of the known ones, and this one
	now      uint32
	model    []byte
	settled  bool // the request that used them last has been answered
}

// tokens is how many bytes a model's tokens have.
type tokens struct {
	model string
	bytes float64 // moving average
}

// learner compares what the tree predicted with what workers tell. It belongs to
// the tree's loop.
type learner struct {
	tree    *prefixtree.Tree
	awaited []expectation
	workers map[uint32]*keeps
	models  []tokens

	hits, misses, restarts uint64
}

func newLearner(tree *prefixtree.Tree) *learner {
	tree.TrackAges()
	return &learner{tree: tree, awaited: make([]expectation, predictions), workers: make(map[uint32]*keeps)}
}

// note remembers what was known of a prompt when a lease was granted for it.
func (l *learner) note(s *sighting, worker uint32, r prefixtree.Reuse) {
	k := l.workers[worker]
	if k != nil && k.size > 0 {
		l.tree.Shrink(worker, k.size, forgetShare)
	}
	if s.ticket.gen == 0 || len(s.key) < learnBlocks || len(s.key) > learnBlocksMost {
		return
	}
	e := &l.awaited[s.ticket.slot%predictions]
	*e = expectation{
		open: true, ticket: s.ticket, worker: worker, blocks: len(s.key), known: r.Blocks, distance: r.Distance,
		before: r.Before, now: r.Now, model: append(e.model[:0], s.model...),
		settled: k != nil && r.Blocks > 0 && !later(r.Before, k.answered),
	}
}

// measure takes in how many bytes a model's tokens have.
func (l *learner) measure(model []byte, each float64) {
	for i := range l.models {
		if m := &l.models[i]; string(model) == m.model {
			m.bytes += (each - m.bytes) * (1 - tokenDecay)
			return
		}
	}
	if len(l.models) < maxMeasured {
		l.models = append(l.models, tokens{string(model), each})
	}
}

// hear takes in what a worker tells of a lease's prompt. What a worker that has
// restarted can't have is added to what is being forgotten.
func (l *learner) hear(t ticket, u Usage, forget leaving) {
	e := &l.awaited[t.slot%predictions]
	if !e.open || e.ticket != t || u.Prompt <= 0 {
		return
	}
	e.open = false
	each := float64(e.blocks) * blockBytes / float64(u.Prompt)
	if each < tokenBytesLeast || each > tokenBytesMost {
		return
	}
	l.measure(e.model, each)
	if u.Cached < 0 {
		return
	}
	k := l.workers[e.worker]
	if k == nil {
		k = &keeps{answered: e.now}
		l.workers[e.worker] = k
	}
	if later(e.now, k.answered) {
		k.answered = e.now
	}
	if e.known < learnBlocks {
		return
	}
	switch cached := int(float64(u.Cached) * each / blockBytes); {
	case cached >= e.known-max(e.known/10, 4): // engines round down
		l.hits++
		k.hit(e)
	case cached <= e.known/2 && e.settled:
		l.misses++
		if k.miss(e) {
			l.restarts++
			forget.restarted(e.worker, k.forgot)
		}
	}
}

// forget drops what was learnt of a worker whose number another may have now.
func (l *learner) forget(worker uint32) { delete(l.workers, worker) }

// stats fills in what was learnt.
func (l *learner) stats(v *TreeStats) {
	v.Hits, v.Misses, v.Restarts = l.hits, l.misses, l.restarts
	for i := range l.models {
		v.Tokens = append(v.Tokens, ModelTokens{l.models[i].model, l.models[i].bytes})
	}
	for w, k := range l.workers {
		v.Caches = append(v.Caches, WorkerCache{WorkerID(w), l.tree.Blocks(w), k.size})
	}
}
