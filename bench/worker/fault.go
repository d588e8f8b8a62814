package worker

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fault is a way to fail. Its zero value is none.
type Fault struct {
	// Slow is waited, in real time, before anything else.
	Slow time.Duration
	// Hang answers nothing until the client leaves.
	Hang bool
	// Reset ends the connection with a TCP reset instead of an answer.
	Reset bool
	// Status answers with this status and an error.
	Status int
	// Cut ends the connection in the middle of the answer: after that many events
	// of a stream, or bytes of a plain body.
	Cut int
}

// ParseFault reads the value of an X-Sim-Fail header: one or more of "status=N",
// "reset", "cut=N", "hang" and "slow=MILLISECONDS", with commas between them.
func ParseFault(s string) (Fault, error) {
	var f Fault
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if (name == "hang" || name == "reset") && value != "" {
			return Fault{}, fmt.Errorf("fault %q takes no value, not %q", name, value)
		}
		var err error
		switch name {
		case "hang":
			f.Hang = true
		case "reset":
			f.Reset = true
		case "status":
			f.Status, err = within(value, 400, 599)
		case "cut":
			f.Cut, err = within(value, 1, maxBody)
		case "slow":
			var ms int
			ms, err = within(value, 0, 600_000)
			f.Slow = time.Duration(ms) * time.Millisecond
		default:
			return Fault{}, fmt.Errorf("fault %q is none of status=N, reset, cut=N, hang, slow=MILLISECONDS", part)
		}
		if err != nil {
			return Fault{}, fmt.Errorf("fault %q: %w", part, err)
		}
	}
	return f, nil
}

// within reads a number that must lie from low to high.
func within(s string, low, high int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not a number from %d to %d", s, low, high)
	}
	return n, nil
}
