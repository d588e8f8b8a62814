package load

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// recorder collects results. Times are kept from 1 µs to 10 minutes with an error
// of at most 0.1 %.
type recorder struct {
	start time.Time

	mu       sync.Mutex // guards the rest
	warm     time.Time  // results before it are left out
	last     time.Time  // the latest end
	open     int
	ended    uint64
	fates    map[fate]uint64
	statuses map[int]uint64 // of refused ones; three digits bound it
	notSent  uint64
	events   uint64
	bytes    uint64
	counted  uint64 // good ones after the warm-up
	first    *hdrhistogram.Histogram
	gap      *hdrhistogram.Histogram
	total    *hdrhistogram.Histogram
	late     *hdrhistogram.Histogram
}

func newRecorder(cfg Config) *recorder {
	now := time.Now()
	return &recorder{
		start: now, warm: now.Add(cfg.WarmUp), last: now,
		fates: make(map[fate]uint64), statuses: make(map[int]uint64),
		first: newHistogram(), gap: newHistogram(), total: newHistogram(), late: newHistogram(),
	}
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(10*time.Minute), 3)
}

// record adds a time, which counts as the bound nearest to it if it is outside.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), h.LowestTrackableValue()), h.HighestTrackableValue()))
}

func (rec *recorder) begin() {
	rec.mu.Lock()
	rec.open++
	rec.mu.Unlock()
}

func (rec *recorder) unsent() {
	rec.mu.Lock()
	rec.notSent++
	rec.mu.Unlock()
}

// end adds a result. One that ended because ctx did says nothing of the server.
func (rec *recorder) end(ctx context.Context, r result) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.open--
	if ctx.Err() != nil && r.fate != ok {
		return
	}
	rec.ended++
	rec.fates[r.fate]++
	a := r.answer
	if r.fate == refused {
		rec.statuses[a.status]++
	}
	rec.events += uint64(a.events)
	rec.bytes += uint64(a.bytes)
	if a.end.After(rec.last) {
		rec.last = a.end
	}
	if r.fate != ok || a.end.Before(rec.warm) {
		return
	}
	rec.counted++
	record(rec.first, a.begins().Sub(r.due))
	record(rec.total, a.end.Sub(r.due))
	record(rec.late, r.sent.Sub(r.due))
	for _, d := range a.gaps {
		record(rec.gap, d)
	}
}

// report is what has been recorded.
func (rec *recorder) report(cfg Config) *Report {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	r := &Report{
		URL: cfg.URL, Loop: "closed", Connections: cfg.Connections,
		Requests: rec.ended, OK: rec.fates[ok], Truncated: rec.fates[truncated], Unsent: rec.notSent,
		Errors: make(map[string]uint64), Statuses: make(map[string]uint64),
		Events: rec.events, Bytes: rec.bytes,
		Seconds: rec.last.Sub(rec.start).Seconds(),
		TTFT:    summary(rec.first), Gap: summary(rec.gap), Total: summary(rec.total), Late: summary(rec.late),
	}
	if cfg.Arrivals != nil {
		r.Loop = "open"
	}
	for f, n := range rec.fates {
		if f != ok && f != refused && f != truncated {
			r.Errors[string(f)] = n
		}
	}
	for s, n := range rec.statuses {
		r.Statuses[strconv.Itoa(s)] = n
	}
	if measured := rec.last.Sub(rec.warm).Seconds(); measured > 0 {
		r.PerSecond = float64(rec.counted) / measured
	}
	return r
}
