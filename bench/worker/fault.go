package worker

import (
	"fmt"
	"math/rand/v2"
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
	// Stop ends the answer at its first token, as a model may by itself. As for a
	// model, min_tokens forbids it.
	Stop bool
	// Percent is how many of the requests it befalls, by chance; 0 for all.
	Percent int
}

// faults is what is to befall a request, by the half of the work it is.
type faults struct{ any, prefill, decode Fault }

// ParseFault reads the value of an X-Sim-Fail header: one or more of "status=N",
// "reset", "cut=N", "hang", "stop", "percent=N" and "slow=MILLISECONDS", with
// commas between them.
func ParseFault(s string) (Fault, error) {
	var f Fault
	for part := range strings.SplitSeq(s, ",") {
		if err := f.add(part); err != nil {
			return Fault{}, err
		}
	}
	return f, nil
}

// parseFaults reads an X-Sim-Fail header whose parts may be for one half of a
// request that two workers share: "prefill:status=503, decode:cut=3". A router
// sends a client's headers to both.
func parseFaults(s string) (*faults, error) {
	f := new(faults)
	for part := range strings.SplitSeq(s, ",") {
		to, fault := &f.any, strings.TrimSpace(part)
		if rest, ok := strings.CutPrefix(fault, "prefill:"); ok {
			to, fault = &f.prefill, rest
		} else if rest, ok := strings.CutPrefix(fault, "decode:"); ok {
			to, fault = &f.decode, rest
		}
		if err := to.add(fault); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// add reads one part of a fault.
func (f *Fault) add(part string) error {
	name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
	if (name == "hang" || name == "reset" || name == "stop") && value != "" {
		return fmt.Errorf("fault %q takes no value, not %q", name, value)
	}
	var err error
	switch name {
	case "hang":
		f.Hang = true
	case "reset":
		f.Reset = true
	case "stop":
		f.Stop = true
	case "status":
		f.Status, err = within(value, 400, 599)
	case "cut":
		f.Cut, err = within(value, 1, maxBody)
	case "percent":
		f.Percent, err = within(value, 1, 100)
	case "slow":
		var ms int
		ms, err = within(value, 0, 600_000)
		f.Slow = time.Duration(ms) * time.Millisecond
	default:
		return fmt.Errorf("fault %q is none of status=N, reset, cut=N, hang, stop, percent=N, slow=MILLISECONDS", part)
	}
	if err != nil {
		return fmt.Errorf("fault %q: %w", part, err)
	}
	return nil
}

// strike is the fault if it befalls this request, or none.
func (f Fault) strike() Fault {
	if f.Percent > 0 && rand.IntN(100) >= f.Percent {
		return Fault{}
	}
	return f
}

// within reads a number that must lie from low to high.
func within(s string, low, high int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not a number from %d to %d", s, low, high)
	}
	return n, nil
}
