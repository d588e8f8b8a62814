package proxy

import (
	"encoding/json"
	"math"

	"loadstar/actors"
	"loadstar/proxy/httphead"
)

// Bounds of the explanation in an answer's head.
const (
	explainedWorkers = 16   // of each choice
	explainedBytes   = 4096 // of the header's value
)

// explanationJSON is the value of x-loadstar-explain.
type explanationJSON struct {
	Attempts int             `json:"attempts"`
	Choices  []explainedJSON `json:"choices"` // one, or those of both phases
}

// explainedJSON is the choice of a worker, of the last attempt.
type explainedJSON struct {
	Role       string        `json:"role"`
	Policy     string        `json:"policy"`
	Reason     string        `json:"reason"`
	Blocks     int           `json:"blocks"`
	Lambda     *float64      `json:"lambda,omitempty"`
	Chosen     string        `json:"chosen"`
	Candidates int           `json:"candidates"`
	Workers    []weighedJSON `json:"workers"` // the chosen one first, then the best of the others
}

// weighedJSON is what was known of a candidate when the choice was made.
type weighedJSON struct {
	Worker  string   `json:"worker"`
	Match   int      `json:"match"`
	Pending int      `json:"pending"`
	Load    int      `json:"load"`
	Held    int      `json:"held,omitempty"`
	Cost    *float64 `json:"cost,omitempty"`
}

// noteExplain notes that the client wants to know how its worker was chosen.
func (x *exchange) noteExplain(l *httphead.Lines) {
	if x.p.opts.WorkerHeader && len(l.Value) == 1 && l.Value[0] == '1' && httphead.Is(l.Name, "x-loadstar-explain") {
		x.explained(explainedWorkers)
	}
}

// explained has the registry write down how the request's workers are chosen, with
// the most candidates.
func (x *exchange) explained(most int) {
	if x.why == nil {
		x.why = new(actors.Explanation)
	}
	x.why.Clear()
	x.why.Most, x.query.Explain = most, x.why
}

// appendWorker appends the headers that say which worker has answered, and why that
// one, where they are wanted.
func (x *exchange) appendWorker(h []byte) []byte {
	if !x.p.opts.WorkerHeader || x.record.worker == "" && x.record.prefill == "" {
		return h
	}
	if x.record.worker != "" {
		h = httphead.AppendLine(h, "X-Loadstar-Worker", x.record.worker)
	}
	if x.record.prefill != "" {
		h = httphead.AppendLine(h, "X-Loadstar-Prefill-Worker", x.record.prefill)
	}
	if e := x.query.Explain; e != nil && e.Most > 0 {
		h = httphead.AppendLine(h, "X-Loadstar-Explain", explanationOf(e, x.record.attempts))
	}
	return h
}

// explanationOf writes an explanation down. Of workers too many or too long to be
// told of, the last ones are left out; in the end all are, and their names.
func explanationOf(e *actors.Explanation, attempts int) []byte {
	out := explanationJSON{Attempts: attempts, Choices: []explainedJSON{}}
	for r := range e.Of {
		if c := &e.Of[r]; c.Made() {
			out.Choices = append(out.Choices, newExplainedJSON(actors.Role(r), c))
		}
	}
	for {
		b, err := json.Marshal(out)
		if err != nil {
			b = []byte("{}") // of a figure that is no number
		}
		if len(b) <= explainedBytes {
			return b
		}
		for i := range out.Choices {
			c := &out.Choices[i]
			if len(c.Workers) > 0 {
				c.Workers = c.Workers[:len(c.Workers)/2]
			} else {
				c.Chosen = ""
			}
		}
	}
}

func newExplainedJSON(r actors.Role, c *actors.Explained) explainedJSON {
	out := explainedJSON{
		Role: r.String(), Policy: c.Policy, Reason: c.Reason.String(), Blocks: c.Blocks, Chosen: c.Chosen.URL,
		Candidates: c.Total, Workers: []weighedJSON{},
	}
	if c.Weighs {
		out.Lambda = rounded(c.Lambda)
	}
	for i := range c.Workers {
		w := &c.Workers[i]
		j := weighedJSON{Worker: w.URL, Match: w.Match, Pending: w.Pending, Load: w.Load, Held: w.Held}
		if c.Weighs {
			j.Cost = rounded(w.Cost)
		}
		out.Workers = append(out.Workers, j)
	}
	return out
}

// rounded is v with three decimals, which is as exact as anybody reads it.
func rounded(v float64) *float64 {
	v = math.Round(v*1000) / 1000
	return &v
}
