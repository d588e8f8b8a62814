// Package decisions keeps the last decisions of a router in memory: which worker a
// request went to, why, and what came of it. It holds no prompts.
package decisions

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Log keeps the newest entries. Its methods are safe for concurrent use; nil is a log
// that is off.
//
// The entries lie in a channel, the oldest in front, and belong to whoever has taken
// them out. So to keep one costs no goroutine that would have to be woken, and nothing
// is copied.
type Log struct {
	kept    chan *Entry
	spare   chan *Entry // memory to use again
	reading chan uint64 // holds how often it was read, unless somebody reads
}

// MaxEntries is the most that a log keeps.
const MaxEntries = 1 << 12

// spares is how many entries are held ready for requests.
const spares = 256

// New returns a log of up to size entries, at most MaxEntries; nil if size is below 1.
func New(size int) *Log {
	if size < 1 {
		return nil
	}
	l := &Log{
		kept:    make(chan *Entry, min(size, MaxEntries)),
		spare:   make(chan *Entry, spares),
		reading: make(chan uint64, 1),
	}
	l.reading <- 0
	return l
}

// Entry returns one to fill in and Keep, nil if the log is off.
func (l *Log) Entry() *Entry {
	if l == nil {
		return nil
	}
	select {
	case e := <-l.spare:
		*e = Entry{ID: e.ID[:0], Model: e.Model[:0]}
		return e
	default:
		return new(Entry)
	}
}

// Keep adds an entry, which is the log's from here on, in place of the oldest one when
// the log is full.
func (l *Log) Keep(e *Entry) {
	if l.put(e) {
		return
	}
	select {
	case oldest := <-l.kept:
		l.reuse(oldest)
	default: // taken meanwhile
	}
	if !l.put(e) {
		l.reuse(e) // others were faster, with newer ones
	}
}

func (l *Log) put(e *Entry) bool {
	select {
	case l.kept <- e:
		return true
	default:
		return false
	}
}

func (l *Log) reuse(e *Entry) {
	select {
	case l.spare <- e:
	default:
	}
}

// AppendLines appends up to most entries to dst, the newest first, each a JSON object
// on a line of its own. It takes them out one by one and puts them back, so that
// requests go on meanwhile.
func (l *Log) AppendLines(dst []byte, most int) []byte {
	if l == nil {
		return dst
	}
	reading := 1 + <-l.reading
	defer func() { l.reading <- reading }()
	all := make([]line, 0, len(l.kept))
	for range len(l.kept) {
		select {
		case e := <-l.kept:
			if e.read != reading { // others took some out meanwhile, so that this one has come round
				e.read = reading
				all = append(all, e.line())
			}
			if !l.put(e) {
				l.reuse(e)
			}
		default:
		}
	}
	slices.SortFunc(all, func(a, b line) int { return cmp.Compare(b.Time.UnixNano(), a.Time.UnixNano()) })
	for i := range all[:min(len(all), most)] {
		b, err := json.Marshal(&all[i])
		if err != nil {
			continue // a figure that is no number
		}
		dst = append(append(dst, b...), '\n')
	}
	return dst
}

// Bounds of what clients choose.
const (
	shownID    = 64
	shownModel = 64
)

// Entry is one decision.
type Entry struct {
	At      time.Time // of the choice
	ID      []byte    // of the request
	Model   []byte    // that was asked for
	Attempt int       // from 1

	Policy     string
	Reason     string
	Blocks     int // of the prompt
	Match      int // of those, known at the worker
	Best       int // known at the worker that knows most
	Candidates int
	Load       int // of the worker before, and so
	Pending    int // its blocks not yet prefilled
	Weighs     bool
	Lambda     float64

	Worker  string
	Prefill string // the worker of the first phase, if there are two: the choice that the figures are of

	Status   int
	Outcome  string
	TTFT     time.Duration // from the request's arrival to the answer's head, or of a stream to the first piece of its body; 0 if none came
	HasUsage bool
	Prompt   int // tokens that the answer told of
	Cached   int // of those, from the cache; below 0 if it didn't say

	read uint64 // which reading of the log has seen it last
}

// Name notes which request it is, by copies of bounded length.
func (e *Entry) Name(id, model []byte) {
	e.ID = append(e.ID[:0], id[:min(len(id), shownID)]...)
	e.Model = append(e.Model[:0], model[:min(len(model), shownModel)]...)
}

// line is an entry as it is shown.
type line struct {
	Time       time.Time `json:"time"`
	ID         string    `json:"id"`
	Model      string    `json:"model,omitempty"`
	Attempt    int       `json:"attempt"`
	Policy     string    `json:"policy"`
	Reason     string    `json:"reason"`
	Blocks     int       `json:"blocks"`
	Match      int       `json:"match"`
	Best       int       `json:"best_match"`
	Candidates int       `json:"candidates"`
	Worker     string    `json:"worker,omitempty"`
	Prefill    string    `json:"prefill_worker,omitempty"`
	Load       int       `json:"load"`
	Pending    int       `json:"pending"`
	Lambda     *float64  `json:"lambda,omitempty"`
	Status     int       `json:"status,omitempty"`
	Outcome    string    `json:"outcome"`
	TTFT       *float64  `json:"ttft_ms,omitempty"`
	Prompt     *int      `json:"prompt_tokens,omitempty"`
	Predicted  *int      `json:"predicted_cached_tokens,omitempty"`
	Cached     *int      `json:"cached_tokens,omitempty"`
}

// line copies what is shown of e, which may be another request's after that.
func (e *Entry) line() line {
	l := line{
		Time: e.At.UTC(), ID: string(e.ID), Model: string(e.Model), Attempt: e.Attempt, Policy: e.Policy, Reason: e.Reason, Blocks: e.Blocks, Match: e.Match, Best: e.Best,
		Candidates: e.Candidates, Worker: e.Worker, Prefill: e.Prefill, Load: e.Load, Pending: e.Pending, Status: e.Status, Outcome: e.Outcome,
	}
	if e.Weighs {
		lambda := e.Lambda
		l.Lambda = &lambda
	}
	if e.TTFT > 0 {
		ms := float64(e.TTFT.Microseconds()) / 1000
		l.TTFT = &ms
	}
	if e.HasUsage {
		prompt := e.Prompt
		l.Prompt = &prompt
		if e.Blocks > 0 {
			predicted := Tokens(e.Match, e.Blocks, e.Prompt)
			l.Predicted = &predicted
		}
		if e.Cached >= 0 {
			cached := e.Cached
			l.Cached = &cached
		}
	}
	return l
}

// Tokens is how many of a prompt's tokens lie in some of its blocks.
func Tokens(some, blocks, prompt int) int {
	if blocks <= 0 {
		return 0
	}
	return int(float64(prompt) * float64(some) / float64(blocks))
}
