package proxy

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"loadstar/actors"
	"loadstar/actors/kvevents"
	"loadstar/proxy/routekey"

	"github.com/VictoriaMetrics/metrics"
)

const (
	// maxTokenBytes is the size of an array of token ids above which it isn't read. No
	// model takes so long a prompt.
	maxTokenBytes = 4 << 20

	// keptTokens is how many tokens' memory an exchange keeps for another request.
	keptTokens = 128 << 10
)

// kvEvents is what workers tell of their caches. Its zero value is that of a router
// that doesn't listen.
type kvEvents struct {
	*kvevents.Events
	block   int // tokens of a block
	lookups [actors.ExactUnavailable + 1]*metrics.Counter
	apart   *metrics.Counter
	unknown *metrics.Counter
}

// newKVEvents starts to listen, if that is asked for.
func newKVEvents(o *kvevents.Options) *kvEvents {
	if o == nil {
		return nil
	}
	return &kvEvents{Events: kvevents.Start(*o), block: o.BlockSize}
}

// count makes the counters of look-ups.
func (k *kvEvents) count(s *metrics.Set) {
	counter := func(result string) *metrics.Counter {
		return s.NewCounter(fmt.Sprintf("vllm_router_kv_placement_lookups_total{result=%q}", result))
	}
	k.apart, k.unknown = counter("cache_salt"), counter("missing_tokens")
	for outcome, result := range map[actors.ExactOutcome]string{
		actors.ExactHeld: "hit", actors.ExactMissed: "miss", actors.ExactOtherModel: "other_model", actors.ExactUnavailable: "index_unavailable",
	} {
		k.lookups[outcome] = counter(result)
	}
}

// Match implements actors.Exact.
func (k *kvEvents) Match(q *actors.ExactQuery) {
	k.Events.Match(q)
	k.lookups[q.Outcome].Inc()
}

// close ends what newKVEvents has started.
func (k *kvEvents) close() {
	if k != nil {
		k.Stop()
	}
}

// findTokens fills in the blocks of the prompt's tokens, if the client has sent those.
func (x *exchange) findTokens() {
	k, q, b := x.p.kv, &x.query, &x.scan.Body
	q.Tokens, q.TokenBlocks = q.Tokens[:0], 0
	if b.Apart {
		k.apart.Inc()
		return
	}
	if len(b.Tokens) > maxTokenBytes {
		k.unknown.Inc()
		return
	}
	most := bytes.Count(b.Tokens, []byte(",")) + 1 // memory that grows step by step takes several times as much
	ids, ok := routekey.AppendTokens(slices.Grow(x.tokens[:0], most), b.Tokens)
	if x.tokens = ids; cap(ids) > keptTokens { // twice the size of the body, and needed no more while it is answered
		x.tokens = nil
	}
	if !ok {
		k.unknown.Inc()
		return
	}
	q.Tokens = kvevents.AppendBlocks(slices.Grow(q.Tokens, len(ids)/k.block), ids, k.block)
	q.TokenBlocks = float64(len(ids)) / float64(k.block)
}

// forgetTokens keeps no more memory for another request than most need.
func (x *exchange) forgetTokens() {
	if cap(x.query.Tokens) > keptTokens {
		x.query.Tokens = nil
	}
}

// write writes how the sources of events fare.
func (k *kvEvents) write(w io.Writer) {
	if k == nil {
		return
	}
	for _, s := range k.Stats() {
		labels := fmt.Sprintf("{worker=%q,endpoint=%q}", s.Worker, s.Endpoint)
		metrics.WriteGaugeUint64(w, "loadstar_kv_source_up"+labels, oneIf(s.Up))
		metrics.WriteGaugeUint64(w, "loadstar_kv_source_complete"+labels, oneIf(s.Whole))
		metrics.WriteGaugeUint64(w, "loadstar_kv_blocks"+labels, uint64(s.Blocks))
		s.Counts(func(kind string, n uint64) {
			metrics.WriteCounterUint64(w, fmt.Sprintf("loadstar_kv_events_total{worker=%q,endpoint=%q,kind=%q}", s.Worker, s.Endpoint, kind), n)
		})
	}
}

func oneIf(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}
