// Package statuspage is the router's status page: the page itself, what it is told
// once a second, and the hub that tells all viewers the same.
package statuspage

import "encoding/json"

// Frame is the router at one instant, as viewers get it.
type Frame struct {
	Time      int64      `json:"time"`    // milliseconds since 1970
	Started   int64      `json:"started"` // likewise; another one is another process
	Version   string     `json:"version"`
	Policy    string     `json:"policy"`
	State     string     `json:"state"` // ready, not ready or shutting down
	Usable    int        `json:"usable_workers"`
	Members   int        `json:"total_workers"`
	Hidden    int        `json:"hidden_workers"` // that there is no room for in Workers
	Workers   []Worker   `json:"workers"`        // at most MaxWorkers, removed ones that still have requests included
	Sections  []Section  `json:"sections"`
	Decisions []Decision `json:"decisions"` // newest first
}

// MaxWorkers is how many workers a frame tells of.
const MaxWorkers = 512

// Section is figures that belong together. Viewers show whatever sections there are.
type Section struct {
	Name  string `json:"name"`
	Facts []Fact `json:"facts"`
}

// Fact is one figure in words.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Bad   bool   `json:"bad,omitempty"` // somebody should look at it
}

// Worker is one worker: what /workers tells of it, and what was seen of it in the
// second before.
type Worker struct {
	Admin   json.RawMessage `json:"worker"` // an object as in the answer of /workers
	URL     string          `json:"url"`
	Usable  bool            `json:"usable"`
	Wedged  bool            `json:"wedged,omitempty"`
	Slow    bool            `json:"slow_start,omitempty"`
	Pending int             `json:"pending_blocks"` // of prompt, given to it and not yet answered
	Seen
}

// Seen is what was seen of a worker in a second.
type Seen struct {
	Answers int     `json:"answers,omitempty"` // that began
	Mean    float64 `json:"ttft_mean,omitempty"`
	Worst   float64 `json:"ttft_worst,omitempty"` // seconds from a request's arrival to the beginning of its answer
	Blocks  int     `json:"blocks,omitempty"`     // of the prompts that went there
	Matched int     `json:"matched,omitempty"`    // of them, thought to be cached there
}

// Decision is how a worker was chosen for one request.
type Decision struct {
	Time       int64  `json:"time"` // milliseconds since 1970
	ID         string `json:"id"`   // of the request; the client's choice
	Path       string `json:"path"`
	Worker     string `json:"url"`
	Reason     string `json:"reason"`
	Match      int    `json:"match"`
	Blocks     int    `json:"blocks"`
	Candidates int    `json:"candidates"`
}

// Event is the frame as an event of a stream.
func (f *Frame) Event() []byte {
	text, err := json.Marshal(f)
	if err != nil {
		panic("a frame of the router's own does not marshal: " + err.Error())
	}
	return append(append([]byte("data: "), text...), "\n\n"...)
}
