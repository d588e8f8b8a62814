package top

import (
	"encoding/json"

	"loadstar/proxy/statuspage"
)

// remembered is how many seconds are remembered of a worker.
const remembered = 60

// history is what was seen of each worker in the last seconds, oldest first.
type history struct {
	started int64 // of the router that it is of
	workers map[string][]statuspage.Seen
}

// add remembers a frame. A router that has started anew has another history, and so
// has a worker that is gone.
func (h *history) add(f *statuspage.Frame) {
	old := h.workers
	if f.Started != h.started {
		old = nil
	}
	h.started, h.workers = f.Started, make(map[string][]statuspage.Seen, len(f.Workers))
	for i := range f.Workers {
		w := &f.Workers[i]
		past := append(old[w.URL], w.Seen)
		h.workers[w.URL] = past[max(len(past)-remembered, 0):]
	}
}

// sums is what was seen of a worker in all the seconds remembered: its answers with
// the mean of how long they took to begin, and the longest, in seconds.
func sums(past []statuspage.Seen) (all statuspage.Seen) {
	for _, s := range past {
		all.Blocks += s.Blocks
		all.Matched += s.Matched
		if s.Answers > 0 {
			all.Answers += s.Answers
			all.Mean += (s.Mean - all.Mean) * float64(s.Answers) / float64(all.Answers)
			all.Worst = max(all.Worst, s.Worst)
		}
	}
	return all
}

// workerText is what is read of a worker as /workers tells of it.
type workerText struct {
	Model    string         `json:"model_id"`
	Type     string         `json:"worker_type"`
	Healthy  bool           `json:"is_healthy"`
	Load     int            `json:"load"`
	Breaker  string         `json:"breaker"`
	Phases   map[string]int `json:"phases"`
	Draining bool           `json:"draining"`
	Removed  bool           `json:"removed"`
	Reason   string         `json:"reason"`
}

func textOf(w *statuspage.Worker) (t workerText) {
	_ = json.Unmarshal(w.Admin, &t) // what isn't there is shown empty
	return t
}
