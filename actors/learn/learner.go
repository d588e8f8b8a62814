// Package learn finds out what workers really keep of the prompts they have seen,
// by what they tell of each: how much of it was cached. A Learner compares that
// with what a prefix tree predicted, learns the size of each worker's cache, has the
// tree forget accordingly, and notices a worker that has lost all.
//
// It is plain data: the tree's actor owns one, and so does a simulation.
package learn

import "loadstar/prefixtree"

// Usage is what a worker has told of a prompt, in tokens.
type Usage struct {
	Prompt int
	Cached int // found in its cache; below 0 when it didn't say
}

// Lease names what a prompt was granted with. Gen of none is 0.
type Lease struct {
	Gen  uint64
	Slot uint32
}

// Stats are what was learnt.
type Stats struct {
	Hits, Misses uint64 // predictions that came true, and that failed
	Restarts     uint64 // workers found to have lost what they held
	Tokens       []ModelTokens
	Caches       []WorkerCache
}

// ModelTokens is how many bytes of prompt a model's tokens have.
type ModelTokens struct {
	Model string
	Bytes float64
}

// WorkerCache is what is known of a worker's cache.
type WorkerCache struct {
	Worker uint32
	Held   int // blocks that it is thought to hold
	Size   int // blocks that it keeps; 0 if that isn't known
}

// LeastBlocks is the shortest prompt, and the shortest prediction, of which there
// is something to learn: engines keep whole blocks of theirs, and templates add
// tokens.
const LeastBlocks = 32

const (
	mostBlocks = 1 << 14 // beyond which blocks may have been left out

	blockBytes = 64

	maxMeasured = 64 // whose tokens are measured; there may be others

	// Prompts with more or fewer bytes to a token are not text.
	tokenBytesLeast, tokenBytesMost = 0.5, 32
	tokenDecay                      = 0.98 // weight of the past, per answer

	// predictions is how many are remembered until their answers have come. A later
	// one takes the place of one that it falls on.
	predictions = 4096

	// shrinkStep is how many entries are forgotten for each prompt at most, so that a
	// worker that keeps little delays nobody.
	shrinkStep = 8
)

// expectation is what the tree has predicted for a lease.
type expectation struct {
	open     bool // nothing has been told yet
	lease    Lease
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

// Learner compares what a tree predicted with what workers tell. Make one with New.
type Learner struct {
	tree    *prefixtree.Tree
	isName  func(model string) bool
	awaited []expectation
	workers map[uint32]*keeps
	models  []tokens

	hits, misses, restarts uint64
}

// New is a learner beside a tree in which nothing is yet. Models are told apart whose
// names isName takes for such.
func New(tree *prefixtree.Tree, isName func(model string) bool) *Learner {
	tree.TrackAges()
	return &Learner{tree: tree, isName: isName, awaited: make([]expectation, predictions), workers: make(map[uint32]*keeps)}
}

// Note remembers what was known of a prompt when a lease was granted for it, as its
// insert said. Of a prompt without a lease nothing will be told.
func (l *Learner) Note(lease Lease, key []uint64, model []byte, worker uint32, r prefixtree.Reuse) {
	k := l.workers[worker]
	if k != nil && k.size > 0 {
		l.tree.Shrink(worker, k.size, shrinkStep)
	}
	if lease.Gen == 0 || len(key) < LeastBlocks || len(key) > mostBlocks {
		return
	}
	e := &l.awaited[lease.Slot%predictions]
	*e = expectation{
		open: true, lease: lease, worker: worker, blocks: len(key), known: r.Blocks, distance: r.Distance,
		before: r.Before, now: r.Now, model: append(e.model[:0], model...),
		settled: k != nil && r.Blocks > 0 && !later(r.Before, k.answered),
	}
}

// measure takes in how many bytes a model's tokens have. Its name is a client's, empty
// where the request had none; what can be no name is shown nowhere.
func (l *Learner) measure(model []byte, each float64) {
	for i := range l.models {
		if m := &l.models[i]; string(model) == m.model {
			m.bytes += (each - m.bytes) * (1 - tokenDecay)
			return
		}
	}
	if len(l.models) < maxMeasured && (len(model) == 0 || l.isName(string(model))) {
		l.models = append(l.models, tokens{string(model), each})
	}
}

// Hear takes in what a worker tells of a lease's prompt. If that shows that the
// worker has restarted, it has nothing that it used up to the insert until.
func (l *Learner) Hear(lease Lease, u Usage) (worker, until uint32, restarted bool) {
	e := &l.awaited[lease.Slot%predictions]
	if !e.open || e.lease != lease || u.Prompt <= 0 {
		return 0, 0, false
	}
	e.open = false
	each := float64(e.blocks) * blockBytes / float64(u.Prompt)
	if each < tokenBytesLeast || each > tokenBytesMost {
		return 0, 0, false
	}
	l.measure(e.model, each)
	if u.Cached < 0 {
		return 0, 0, false
	}
	k := l.workers[e.worker]
	if k == nil {
		k = &keeps{answered: e.now}
		l.workers[e.worker] = k
	}
	if later(e.now, k.answered) {
		k.answered = e.now
	}
	cached := int(float64(u.Cached) * each / blockBytes)
	if cached >= e.known+LeastBlocks {
		k.find()
	}
	if e.known < LeastBlocks {
		return 0, 0, false
	}
	switch {
	case cached >= e.known-max(e.known/10, 4): // engines round down
		l.hits++
		k.hit(e)
	case cached <= e.known/2 && e.settled:
		l.misses++
		if k.miss(e) {
			l.restarts++
			return e.worker, k.forgot, true
		}
	}
	return 0, 0, false
}

// Forget drops what was learnt of a worker whose number another may have now.
func (l *Learner) Forget(worker uint32) { delete(l.workers, worker) }

// Stats is what was learnt so far.
func (l *Learner) Stats() Stats {
	v := Stats{Hits: l.hits, Misses: l.misses, Restarts: l.restarts}
	for i := range l.models {
		v.Tokens = append(v.Tokens, ModelTokens{l.models[i].model, l.models[i].bytes})
	}
	for w, k := range l.workers {
		v.Caches = append(v.Caches, WorkerCache{w, l.tree.Blocks(w), k.size})
	}
	return v
}
