package sim

import (
	"container/heap"
	"time"
)

// what says what happens in an event.
type what uint8

const (
	prefilled     what = iota // the worker's prompt under way
	finished                  // the job's last token
	restarted                 // the worker's cache is lost
	still                     // the worker may have answered nothing for as long as it may
	parkedLongest             // the job may have been parked for as long as it may
)

// event is something that will happen.
type event struct {
	at     time.Duration
	number int // order in which they were planned, which decides among those of a time
	what   what
	worker int
	job    *job // of finished and parkedLongest
}

// agenda is what will happen, the earliest first.
type agenda struct {
	events  []event
	planned int
}

func (a *agenda) plan(e event) {
	e.number = a.planned
	a.planned++
	heap.Push((*eventHeap)(&a.events), e)
}

func (a *agenda) next() event { return heap.Pop((*eventHeap)(&a.events)).(event) }

// before reports whether something happens by a time.
func (a *agenda) before(at time.Duration) bool { return len(a.events) > 0 && a.events[0].at <= at }

type eventHeap []event

func (h eventHeap) Len() int      { return len(h) }
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h eventHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].number < h[j].number
}

func (h *eventHeap) Push(e any) { *h = append(*h, e.(event)) }

func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}
