package workload

import (
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// OutputTokens is the length of the answers of synthetic workloads, and of those of
// which a trace tells none.
const OutputTokens = 20

// Shapes of the synthetic workloads, in blocks where nothing else is said.
const (
	systemBlocks = 47
	maxUser      = 18 // of a turn, one at least
	maxAnswer    = 9  // of a turn, one at least
	maxTurns     = 11 // of a conversation, one at least
	groupSkew    = 1.2
	manyGroups   = 24
	hotGroups    = 2
	maxUnique    = 80 // of a prompt that shares nothing, one at least
	longShare    = .1 // of mixed requests, prompts that share nothing and are long
	minLong      = 100
	maxLong      = 500
	longIDs      = 1 << 48 // of whose blocks they begin here
)

// synthetic is a workload that is made up.
type synthetic struct {
	name string
	rate float64 // requests a second, unless it is said
	make func(o *Options) Source
}

var synthetics = []synthetic{
	{"conversations", 80, func(o *Options) Source { return conversations(manyGroups, o) }},
	{"hot", 80, func(o *Options) Source { return conversations(hotGroups, o) }},
	{"unique", 60, func(o *Options) Source { return unique(1, maxUnique, 0, o) }},
	{"mixed", 60, mixed},
}

// Synthetics are the names of the workloads that need no trace.
func Synthetics() []string {
	var all []string
	for _, s := range synthetics {
		all = append(all, s.name)
	}
	return all
}

// IsSynthetic reports whether a workload has this name. Anything else is a trace's
// file.
func IsSynthetic(name string) bool { return DefaultRate(name) > 0 }

// DefaultRate is how many requests a second a synthetic workload has unless
// something else is said; 0 for an unknown one.
func DefaultRate(name string) float64 {
	s, _ := syntheticNamed(name)
	return s.rate
}

// Options say more of a workload than its name does.
type Options struct {
	Rate        float64       // requests a second of a synthetic one
	Seed        uint64        // of a synthetic one
	Rest        time.Duration // how far apart the requests of a conversation are at least
	BlockTokens int           // tokens of a trace's block
}

// Open is the synthetic workload of this name, or else the trace in the file of
// that name.
func Open(name string, o Options) (Source, io.Closer, error) {
	if s, isSynthetic := syntheticNamed(name); isSynthetic {
		return s.make(&o), io.NopCloser(nil), nil
	}
	return openTrace(name, o.BlockTokens)
}

func syntheticNamed(name string) (synthetic, bool) {
	i := slices.IndexFunc(synthetics, func(s synthetic) bool { return s.name == name })
	if i < 0 {
		return synthetic{}, false
	}
	return synthetics[i], true
}

// alive is how many conversations there are at once: enough that one is at rest
// whenever a request comes.
func alive(rate float64) int {
	switch {
	case rate < 80:
		return 120
	case rate == 80:
		return 240
	}
	return 400
}

// poisson gives the times of requests that come independently of one another, rate
// a second on average.
func poisson(random *rand.Rand, rate float64) func() time.Duration {
	at := 0.0
	return func() time.Duration {
		at += random.ExpFloat64() / rate * float64(time.Second)
		return time.Duration(at)
	}
}

// talk is a conversation.
type talk struct {
	blocks []uint64 // said so far
	turns  int      // left
	free   time.Duration
}

// conversations share system prompts, the groups having Zipf-distributed shares,
// and grow by turns; each request is the next turn of a random one that is at rest.
// One that has ended gives its place to a new one. What is said doesn't depend on
// how the router answers, so it is the same for all.
func conversations(groups int, o *Options) Source {
	random := rand.New(rand.NewPCG(o.Seed, 1))
	zipf := rand.NewZipf(random, groupSkew, 1, uint64(groups-1))
	arrive := poisson(random, o.Rate)
	fresh := uint64(groups * systemBlocks)
	say := func(t *talk, most int) {
		for range 1 + random.IntN(most) {
			t.blocks = append(t.blocks, fresh)
			fresh++
		}
	}
	begin := func(t *talk) {
		system := zipf.Uint64() * systemBlocks
		*t = talk{turns: 1 + random.IntN(maxTurns), blocks: t.blocks[:0], free: t.free}
		for i := range uint64(systemBlocks) {
			t.blocks = append(t.blocks, system+i)
		}
	}
	all := make([]talk, alive(o.Rate))
	for i := range all {
		begin(&all[i])
	}
	idle := make([]*talk, 0, len(all))
	return func() (Request, error) {
		at := arrive()
		idle = idle[:0]
		rested := &all[0]
		for i := range all {
			if all[i].free <= at {
				idle = append(idle, &all[i])
			}
			if all[i].free < rested.free {
				rested = &all[i]
			}
		}
		t := rested
		if len(idle) > 0 {
			t = idle[random.IntN(len(idle))]
		}
		say(t, maxUser)
		r := Request{At: at, Blocks: slices.Clone(t.blocks), Input: Unknown, Output: OutputTokens}
		say(t, maxAnswer)
		t.free = at + o.Rest
		if t.turns--; t.turns == 0 {
			begin(t)
		}
		return r, nil
	}
}

// unique prompts share nothing. Their blocks' ids begin with first.
func unique(least, most int, first uint64, o *Options) Source {
	random := rand.New(rand.NewPCG(o.Seed, 2))
	arrive := poisson(random, o.Rate)
	return func() (Request, error) {
		r := Request{At: arrive(), Blocks: make([]uint64, least+random.IntN(most-least+1)), Input: Unknown, Output: OutputTokens}
		for i := range r.Blocks {
			r.Blocks[i] = first
			first++
		}
		return r, nil
	}
}

// mixed is conversations, between which come long prompts that share nothing.
func mixed(o *Options) Source {
	short, long := *o, *o
	short.Rate, long.Rate = (1-longShare)*o.Rate, longShare*o.Rate
	return merge(conversations(manyGroups, &short), unique(minLong, maxLong, longIDs, &long))
}

// merge is the requests of two endless sources, by their times.
func merge(a, b Source) Source {
	next := [2]Source{a, b}
	var first [2]Request
	var err error
	take := func(i int) {
		if err == nil {
			first[i], err = next[i]()
		}
	}
	take(0)
	take(1)
	return func() (Request, error) {
		i := 0
		if first[1].At < first[0].At {
			i = 1
		}
		r, failed := first[i], err
		take(i)
		return r, failed
	}
}
