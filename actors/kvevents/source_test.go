package kvevents

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/kvevents/kvtest"
)

const (
	testWorker = "http://a:1"
	testSize   = 4 // tokens of a block
)

// rig is an index that listens to one publisher for worker 3.
type rig struct {
	t testing.TB
	*Events
	pub *kvtest.Publisher
}

// listen starts a rig, with a replay socket if that is asked for.
func listen(t testing.TB, pub *kvtest.Publisher, replay bool) *rig {
	t.Helper()
	o := Options{Sources: map[string][]string{testWorker: {pub.Endpoint()}}, BlockSize: testSize, Host: .5, External: .25, Disk: 0}
	if replay {
		o.Replays = map[string][]string{testWorker: {pub.Replay()}}
	}
	r := &rig{t, Start(o), pub}
	t.Cleanup(r.Stop)
	r.Join(3, testWorker)
	r.await("the source is up", func(s SourceStats) bool { return s.Up })
	pub.AwaitSubscriber()
	return r
}

// await waits until the source fares as ok says.
func (r *rig) await(what string, ok func(SourceStats) bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		all := r.Stats()
		if len(all) == 1 && ok(all[0]) {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%+v, want that %s", all, what)
		}
	}
}

// awaitCount waits until events of a kind were counted so often.
func (r *rig) awaitCount(k kind, n uint64) {
	r.t.Helper()
	r.await(kindNames[k]+" was counted", func(s SourceStats) bool { return s.counts[k] >= n })
}

// want checks what is known of a prompt of 16 tokens, from 1 on.
func (r *rig) want(outcome actors.ExactOutcome, blocks float64, sure bool) {
	r.t.Helper()
	q := actors.ExactQuery{Blocks: AppendBlocks(nil, tokens(1, 16), testSize), Outcome: actors.ExactUnavailable}
	r.Match(&q)
	if q.Outcome != outcome {
		r.t.Errorf("outcome %v, want %v", q.Outcome, outcome)
	}
	if outcome == actors.ExactUnavailable {
		if len(q.Hits) > 0 {
			r.t.Errorf("hits %v, want none", q.Hits)
		}
		return
	}
	if want := []actors.ExactHit{{Worker: 3, Blocks: blocks, Sure: sure}}; !slices.Equal(q.Hits, want) {
		r.t.Errorf("hits %v, want %v", q.Hits, want)
	}
}

// tokens are n numbers from first on.
func tokens(first, n int) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = uint32(first + i)
	}
	return all
}

// stored is an event of blocks of the tokens from first on. Their hashes are such
// that a block's parent has one less.
func stored(hash uint64, first int, parent any, blocks int) []byte {
	var hashes []uint64
	for i := range blocks {
		hashes = append(hashes, hash+uint64(i))
	}
	return kvtest.Event("BlockStored", kvtest.Stored(parent, testSize, tokens(first, testSize*blocks), hashes...)...)
}

func TestEventsAreFollowed(t *testing.T) {
	r := listen(t, kvtest.New(t), false)
	r.want(actors.ExactMissed, 0, false)
	r.pub.Publish(stored(100, 1, nil, 2))
	r.pub.Publish(stored(102, 9, 101, 1), stored(500, 77, nil, 1))
	r.awaitCount(kindStored, 4)
	r.want(actors.ExactHeld, 3, true)
	r.pub.Publish(kvtest.Event("BlockRemoved", kvtest.Removed(102, 900)...))
	r.awaitCount(kindUnknown, 1)
	r.want(actors.ExactHeld, 2, true)
	r.pub.Publish(kvtest.Event("AllBlocksCleared"))
	r.awaitCount(kindCleared, 1)
	r.want(actors.ExactMissed, 0, true)
	r.pub.Publish(stored(100, 1, nil, 1))
	r.awaitCount(kindStored, 5)
	r.want(actors.ExactHeld, 1, true)
	r.Leave(3, testWorker)
	r.want(actors.ExactUnavailable, 0, false)
	if all := r.Stats(); len(all) > 0 {
		t.Errorf("%+v, want nothing of a worker that has left", all)
	}
}

// Who comes late knows what a replay tells, and that there may be more if there is
// none, or if it doesn't reach back to the beginning.
func TestComingLate(t *testing.T) {
	for _, tc := range []struct {
		name    string
		replay  bool
		forget  int
		blocks  uint64 // that are told of
		outcome actors.ExactOutcome
		held    float64
		sure    bool
	}{
		{"with a replay", true, 0, 5, actors.ExactHeld, 3, true},
		{"with a replay that has lost the beginning", true, 1, 4, actors.ExactHeld, 3, false},
		{"without one", false, 0, 2, actors.ExactMissed, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pub := kvtest.New(t)
			pub.Publish(stored(700, 77, nil, 1))
			pub.Publish(stored(100, 1, nil, 2))
			pub.Forget(tc.forget)
			r := listen(t, pub, tc.replay)
			r.pub.Publish(stored(102, 9, 101, 1), stored(900, 55, nil, 1))
			r.await("all was read", func(s SourceStats) bool { return s.counts[kindStored]+s.counts[kindOrphaned] == tc.blocks })
			r.want(tc.outcome, tc.held, tc.sure)
		})
	}
}

func TestGaps(t *testing.T) {
	for _, tc := range []struct {
		name   string
		replay bool
		forget int // batches that no replay has
		kind   kind
		blocks float64
		sure   bool
	}{
		{"filled by a replay", true, 0, kindGap, 4, true},
		{"which the replay has lost too", true, 2, kindLost, 0, false},
		{"of which the replay has nothing", true, 0, kindLost, 0, false},
		{"without a replay", false, 0, kindLost, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := listen(t, kvtest.New(t), tc.replay)
			if tc.replay && tc.forget == 0 && tc.kind == kindLost {
				r.pub.KeepNone()
			}
			r.pub.Publish(stored(100, 1, nil, 2))
			r.awaitCount(kindStored, 2)
			r.pub.Lose(stored(102, 9, 101, 1))
			r.pub.Forget(tc.forget)
			r.pub.Publish(stored(103, 13, 102, 1), stored(900, 55, nil, 1))
			r.awaitCount(tc.kind, 1)
			r.await("the last batch was read", func(s SourceStats) bool { return s.counts[kindStored] >= 3 })
			r.await("what was known is dropped", func(s SourceStats) bool { return tc.blocks > 0 && s.Blocks == 5 || s.Blocks == 1 })
			outcome := actors.ExactHeld
			if tc.blocks == 0 {
				outcome = actors.ExactMissed
			}
			r.want(outcome, tc.blocks, tc.sure)
		})
	}
}

func TestCutOff(t *testing.T) {
	t.Run("the process is the same", func(t *testing.T) {
		r := listen(t, kvtest.New(t), true)
		r.pub.Publish(stored(100, 1, nil, 2))
		r.awaitCount(kindStored, 2)
		r.pub.Lose(stored(102, 9, 101, 1))
		r.pub.CutOff()
		r.awaitCount(kindStored, 3)
		r.await("it is up again", func(s SourceStats) bool { return s.Up })
		r.want(actors.ExactHeld, 3, true)
		if got, want := r.pub.Asked(), []uint64{0, 0}; !slices.Equal(got, want) {
			t.Errorf("replays from %v, want %v: the last batch known is asked for again", got, want)
		}
	})
	t.Run("the process is another", func(t *testing.T) {
		r := listen(t, kvtest.New(t), true)
		r.pub.Publish(stored(100, 1, nil, 2))
		r.pub.Publish(stored(102, 9, 101, 1))
		r.awaitCount(kindStored, 3)
		r.pub.Restart()
		r.pub.Publish(stored(900, 55, nil, 1))
		r.pub.Publish(stored(200, 1, nil, 1))
		r.awaitCount(kindStored, 5)
		r.await("it is up again", func(s SourceStats) bool { return s.Up })
		r.want(actors.ExactHeld, 1, true)
	})
	t.Run("the process is another, the connection is not", func(t *testing.T) {
		for _, replay := range []bool{false, true} {
			r := listen(t, kvtest.New(t), replay)
			for i := range uint64(3) {
				r.pub.Publish(stored(100+i, 1+testSize*int(i), parentOf(i), 1))
			}
			r.awaitCount(kindStored, 3)
			r.pub.StartAgain()
			r.pub.Publish(stored(200, 1, nil, 1))
			r.await("all but what it holds is forgotten", func(s SourceStats) bool { return s.Up && s.Blocks <= 1 })
			if replay {
				r.awaitCount(kindStored, 4)
				r.want(actors.ExactHeld, 1, true)
			} else {
				r.want(actors.ExactMissed, 0, false)
			}
		}
	})
	t.Run("no replay", func(t *testing.T) {
		r := listen(t, kvtest.New(t), false)
		r.pub.Publish(stored(100, 1, nil, 2))
		r.awaitCount(kindStored, 2)
		r.pub.CutOff()
		r.awaitCount(kindLost, 1)
		r.await("it is up again", func(s SourceStats) bool { return s.Up })
		r.want(actors.ExactMissed, 0, false)
	})
	t.Run("meanwhile", func(t *testing.T) {
		r := listen(t, kvtest.New(t), false)
		r.pub.Publish(stored(100, 1, nil, 2))
		r.awaitCount(kindStored, 2)
		r.pub.Shut()
		r.await("it is down", func(s SourceStats) bool { return !s.Up })
		r.want(actors.ExactUnavailable, 0, false)
	})
}

// parentOf is the hash of the block before the nth from 100 on.
func parentOf(n uint64) any {
	if n == 0 {
		return nil
	}
	return 99 + n
}

// A batch that comes again counts once.
func TestBatchThatComesAgain(t *testing.T) {
	r := listen(t, kvtest.New(t), false)
	r.pub.Publish(stored(100, 1, nil, 2))
	r.pub.Repeat()
	r.pub.Publish(stored(102, 9, 101, 1))
	r.awaitCount(kindStored, 3)
	r.want(actors.ExactHeld, 3, true)
	r.await("no block was stored twice", func(s SourceStats) bool { return s.counts[kindStored] == 3 })
}

// A worker whose blocks have another size has no say against a prediction.
func TestBlocksOfAnotherSize(t *testing.T) {
	r := listen(t, kvtest.New(t), false)
	r.pub.Publish(kvtest.Event("BlockStored", kvtest.Stored(nil, 2*testSize, tokens(1, 2*testSize), 7)...))
	r.awaitCount(kindSkipped, 1)
	r.want(actors.ExactMissed, 0, false)
}

// What a worker that leaves held is dropped.
func TestLeavingDropsBlocks(t *testing.T) {
	e := &Events{opts: Options{Sources: map[string][]string{testWorker: {"127.0.0.1:1"}}, BlockSize: testSize, Log: slog.New(slog.DiscardHandler)}, events: make(chan event, eventsSize)}
	s := &state{e: e, x: newIndex([numTiers]float64{1}, 10)}
	s.join(3, testWorker)
	s.apply(s.members[0].streams[0], &change{first: true, hash: 1, content: 1})
	if s.x.blocks != 1 {
		t.Fatalf("%d blocks, want 1", s.x.blocks)
	}
	s.leave(3)
	s.leave(3)
	if s.x.drop(10); s.x.blocks != 0 || s.x.shards[0].slots[0] != nil {
		t.Errorf("%d blocks, want none and no slot", s.x.blocks)
	}
	for s.running > 0 {
		s.take(<-e.events)
	}
}

// Who removes a worker says so after its number is free, and may come too late.
func TestLeavingAsAnother(t *testing.T) {
	e := Start(Options{Sources: map[string][]string{testWorker: {"127.0.0.1:1"}}, BlockSize: testSize})
	t.Cleanup(e.Stop)
	e.Join(3, testWorker)
	e.Leave(3, "http://before:1")
	if got := e.Stats(); len(got) != 1 {
		t.Errorf("%d sources when somebody else has left, want 1", len(got))
	}
	e.Leave(3, testWorker)
	if got := e.Stats(); len(got) != 0 {
		t.Errorf("%d sources when it has left, want none", len(got))
	}
}

// A crowd of queries shuts out no events.
func TestCrowdOfQueries(t *testing.T) {
	e := &Events{queries: make(chan *actors.ExactQuery, queriesSize), events: make(chan event, eventsSize), controls: make(chan control), done: make(chan struct{})}
	q := &actors.ExactQuery{Reply: make(chan struct{})} // it is answered as often as it was asked
	for range queriesSize {
		e.queries <- q
	}
	for range eventsSize {
		e.events <- event{from: &stream{}, op: opUp}
	}
	go e.loop()
	for range queriesSize - 1 {
		<-q.Reply
	}
	if got := len(e.events); got > 1 {
		t.Errorf("%d of %d events still wait behind %d queries, want them taken meanwhile", got, eventsSize, queriesSize-1)
	}
	<-q.Reply
	e.Stop()
}

// What can't be read may have told of blocks that are gone.
func TestUnreadableBatch(t *testing.T) {
	r := listen(t, kvtest.New(t), false)
	r.pub.Publish(stored(100, 1, nil, 2))
	r.pub.PublishRaw([]byte("\xc1"))
	r.pub.Publish(stored(100, 1, nil, 1))
	r.awaitCount(kindStored, 3)
	r.awaitCount(kindUnreadable, 1)
	r.want(actors.ExactHeld, 1, false)
}

// A stopped index answers, and takes members without doing anything.
func TestStopped(t *testing.T) {
	e := Start(Options{Sources: map[string][]string{testWorker: {"127.0.0.1:1"}}, BlockSize: testSize})
	e.Join(1, testWorker)
	e.Stop()
	e.Join(2, testWorker)
	e.Leave(1, testWorker)
	q := actors.ExactQuery{Outcome: actors.ExactUnavailable}
	if e.Match(&q); q.Outcome != actors.ExactUnavailable || e.Stats() != nil {
		t.Errorf("outcome %v and %v, want none", q.Outcome, e.Stats())
	}
	e.Stop()
}

func TestModels(t *testing.T) {
	pub := kvtest.New(t)
	e := Start(Options{Sources: map[string][]string{testWorker: {pub.Endpoint()}}, BlockSize: testSize, Model: "base"})
	t.Cleanup(e.Stop)
	r := &rig{t, e, pub}
	r.Join(3, testWorker)
	pub.AwaitSubscriber()
	r.await("the source is up", func(s SourceStats) bool { return s.Up })
	adapted := kvtest.Stored(nil, testSize, tokens(1, 4), 200)
	adapted[6].Value = "tuned"
	pub.Publish(stored(100, 1, nil, 2), kvtest.Event("BlockStored", adapted...))
	r.awaitCount(kindStored, 3)
	for _, tc := range []struct {
		model   string
		outcome actors.ExactOutcome
		blocks  float64
	}{
		{"base", actors.ExactHeld, 2},
		{"", actors.ExactHeld, 2},
		{"tuned", actors.ExactHeld, 1},
		{"other", actors.ExactOtherModel, 0},
	} {
		q := actors.ExactQuery{Model: []byte(tc.model), Blocks: AppendBlocks(nil, tokens(1, 16), testSize)}
		e.Match(&q)
		blocks := 0.
		if len(q.Hits) > 0 {
			blocks = q.Hits[0].Blocks
		}
		if q.Outcome != tc.outcome || blocks != tc.blocks {
			t.Errorf("model %q: outcome %v with %v blocks, want %v with %v", tc.model, q.Outcome, blocks, tc.outcome, tc.blocks)
		}
	}
}

func TestSourcesOfAWorker(t *testing.T) {
	o := Options{
		Sources: map[string][]string{"http://a:1": {"a:10", "a:20"}, "http://b:1": {"b:10"}, "http://c:1@2": {"c:7"}, "http://d:1": {"d:65535"}},
		Replays: map[string][]string{"http://a:1": {"a:11"}, "http://b:1": {"b:11"}},
	}
	for _, tc := range []struct {
		worker string
		want   []source
	}{
		{"http://a:1", []source{{"http://a:1", "a:10", "a:11"}, {"http://a:1", "a:20", ""}}},
		{"http://a:1@1", []source{{"http://a:1@1", "a:20", ""}}},
		{"http://a:1@2", nil},
		{"http://b:1@0", []source{{"http://b:1@0", "b:10", "b:11"}}},
		{"http://b:1@3", []source{{"http://b:1@3", "b:13", "b:14"}}},
		{"http://c:1@2", []source{{"http://c:1@2", "c:7", ""}}},
		{"http://c:1@1", nil},
		{"http://d:1@1", nil},
		{"http://e:1", nil},
	} {
		if got := o.sourcesOf(tc.worker); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.worker, got, tc.want)
		}
	}
}
