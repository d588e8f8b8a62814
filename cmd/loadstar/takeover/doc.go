// Package takeover hands a router's listening sockets over to the process that
// follows it on the same machine, so that no connection is reset or refused.
//
// The running process listens at a path, its door. The next one connects there and
// is given the sockets themselves, not others at the same addresses, so what waits
// in their queues is lost to nobody. It accepts nothing yet. When it can serve it
// says so, the one before answers that the sockets are its own, and stops to
// accept. From then on, while it finishes what it has, it tells how much of that
// runs at each worker. If the next one ends before, nothing has happened.
//
// Both speak lines of JSON, of bounded length:
//
//	door   {"takeover":1,"pid":7,"sockets":[{"name":"clients","address":"127.0.0.1:30000"}]}
//	       with the sockets beside it (SCM_RIGHTS), in that order
//	next   {"ready":true}
//	door   {"yours":true}
//	door   {"loads":[{"w":"http://10.0.0.1:8000","n":3}]}, all of it, every 50 ms
//
// or, at any time before "yours", {"refused":"why"}. Deadlines are set without a look
// at the error: a connection that refuses one has ended, which its next use tells.
package takeover

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Bounds and paces of the conversation.
const (
	version     = 1
	maxLine     = 4 << 20 // bytes; what doesn't fit is left out by who writes it
	maxWorkers  = 4096    // in one line
	maxSockets  = 8
	stepTimeout = 5 * time.Second // for any step that waits for the other process alone
	pendingFor  = time.Hour       // for the next process to become ready
	tellEvery   = 50 * time.Millisecond
	silence     = time.Second // after which what was told counts no more
)

// MaxPath is the longest path of a door, in bytes: the system's limit for sockets,
// less what is put behind it while the door is made.
const MaxPath = 90

// Load is how many leases are live at one worker.
type Load struct {
	Worker string `json:"w"` // URL
	N      int    `json:"n"`
}

// line is everything that is said.
type line struct {
	Takeover int          `json:"takeover,omitempty"`
	PID      int          `json:"pid,omitempty"`
	Sockets  []socketLine `json:"sockets,omitempty"`
	Ready    bool         `json:"ready,omitempty"`
	Yours    bool         `json:"yours,omitempty"`
	Refused  string       `json:"refused,omitempty"`
	Loads    *[]Load      `json:"loads,omitempty"`
}

type socketLine struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// appendLine appends what l says. Loads that make it too long are left out.
func appendLine(b []byte, l line) []byte {
	text, err := json.Marshal(l)
	for err == nil && len(text) >= maxLine && l.Loads != nil && len(*l.Loads) > 0 {
		half := (*l.Loads)[:len(*l.Loads)/2]
		l.Loads = &half
		text, err = json.Marshal(l)
	}
	if err != nil {
		panic("a line of our own does not marshal: " + err.Error())
	}
	return append(append(b, text...), '\n')
}

// reader reads lines.
type reader struct{ lines *bufio.Scanner }

func newReader(r io.Reader) *reader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	return &reader{s}
}

// next reads one line. The error is io.EOF at the end between two lines.
func (r *reader) next() (line, error) {
	if !r.lines.Scan() {
		err := r.lines.Err()
		if err == nil {
			err = io.EOF
		}
		return line{}, err
	}
	return parseLine(r.lines.Bytes())
}

var errLine = errors.New("the other process says what can't be understood")

func parseLine(text []byte) (line, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return line{}, fmt.Errorf("%w: %w", errLine, err)
	}
	if len(l.Sockets) > maxSockets || l.Loads != nil && len(*l.Loads) > maxWorkers {
		return line{}, fmt.Errorf("%w: it is beyond all bounds", errLine)
	}
	if l.Loads != nil {
		for _, at := range *l.Loads {
			if at.N < 0 {
				return line{}, fmt.Errorf("%w: a load of %d", errLine, at.N)
			}
		}
	}
	return l, nil
}
