package actors

// Placements are what routers tell each other of prompts: which worker was given
// which. They are kept in the order in which they came, up to a bound, for whoever
// collects them.

// Bounds of what is kept between two collections.
const (
	MaxPlacements      = 2048    // prompts
	maxPlacedBlocks    = 1 << 15 // of all of them together
	MaxPlacementBlocks = longKey // of one, which is cut to it
)

// Placement is the beginning of a prompt's key, and the worker that was given it.
type Placement struct {
	Worker string // its URL
	Key    []uint64
}

// placements are those since the last collection.
type placements struct {
	blocks []uint64
	all    []placed
	seen   map[placed]bool // without repetitions, of which there are many under load
}

// placed is one of them. Its blocks end where the next one's begin.
type placed struct {
	worker WorkerID
	end    int    // in blocks
	last   uint64 // block, which stands for all before it
}

func newPlacements() *placements { return &placements{seen: make(map[placed]bool)} }

// add takes note of a prompt if there is room.
func (p *placements) add(key []uint64, w WorkerID) {
	key = key[:min(len(key), MaxPlacementBlocks)]
	if len(key) == 0 || len(p.all) == MaxPlacements || len(p.blocks)+len(key) > maxPlacedBlocks {
		return
	}
	e := placed{worker: w, last: key[len(key)-1]}
	if p.seen[e] {
		return
	}
	p.seen[e] = true
	p.blocks = append(p.blocks, key...)
	e.end = len(p.blocks)
	p.all = append(p.all, e)
}

// named returns them with URLs in place of numbers, of which those that aren't known
// any more have none.
func (p *placements) named(urls map[WorkerID]string) []Placement {
	all, from := make([]Placement, 0, len(p.all)), 0
	for _, e := range p.all {
		if url := urls[e.worker]; url != "" {
			all = append(all, Placement{url, p.blocks[from:e.end:e.end]})
		}
		from = e.end
	}
	return all
}

// workers are the workers of placements, once each.
func (p *placements) workers() []WorkerID {
	var ids []WorkerID
	known := make(map[WorkerID]bool)
	for _, e := range p.all {
		if !known[e.worker] {
			known[e.worker] = true
			ids = append(ids, e.worker)
		}
	}
	return ids
}

// Placed returns the prompts that were placed since the last call, as far as they
// were kept; see RouterOptions.KeepPlacements.
func (r *Router) Placed() []Placement {
	if r.tree == nil {
		return nil
	}
	p, ok := r.tree.placed()
	if !ok || len(p.all) == 0 {
		return nil
	}
	ids := p.workers()
	reply := make(chan []string, 1)
	urls, _ := ask(r.Registry, nameWorkers{ids, reply}, reply)
	names := make(map[WorkerID]string, len(urls))
	for i, url := range urls {
		names[ids[i]] = url
	}
	return p.named(names)
}

// Hint has the tree learn what other routers have placed, as far as there is room
// for it beside what is learnt here. It returns how many of all were passed on: not
// those of workers that aren't known here, nor those that a busy tree doesn't take.
func (r *Router) Hint(all []Placement) (taken int) {
	if r.tree == nil || len(all) == 0 {
		return 0
	}
	var urls []string
	at := make(map[string]int)
	for i := range all {
		if _, known := at[all[i].Worker]; !known {
			at[all[i].Worker] = len(urls)
			urls = append(urls, all[i].Worker)
		}
	}
	reply := make(chan []WorkerID, 1)
	ids, ok := ask(r.Registry, findWorkers{urls, reply}, reply)
	if !ok {
		return 0
	}
	for i := range all {
		if id := ids[at[all[i].Worker]]; id != NoWorker && r.tree.hint(all[i].Key, id) {
			taken++
		}
	}
	return taken
}

// NoWorker is the number of no worker.
const NoWorker = ^WorkerID(0)

type nameWorkers struct {
	ids   []WorkerID
	reply chan<- []string
}

func (m nameWorkers) apply(s *state) {
	urls := make([]string, len(m.ids))
	for i, id := range m.ids {
		if int(id) < len(s.workers) {
			urls[i] = s.workers[id].spec.URL
		}
	}
	m.reply <- urls
}

type findWorkers struct {
	urls  []string
	reply chan<- []WorkerID
}

func (m findWorkers) apply(s *state) {
	ids := make([]WorkerID, len(m.urls))
	for i, url := range m.urls {
		ids[i] = NoWorker
		if id, ok := s.byURL[url]; ok && s.workers[id].member {
			ids[i] = id
		}
	}
	m.reply <- ids
}
