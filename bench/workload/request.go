package workload

import "time"

// Request is one of a workload's.
type Request struct {
	At     time.Duration // since the first one
	Blocks []uint64      // ids of the prompt's blocks
	Input  int           // tokens of the prompt; Unknown if nothing says
	Output int           // tokens of the answer, likewise
}

// Unknown is a number of tokens that a trace doesn't tell.
const Unknown = -1

// Source gives requests in the order of their times. Its error is io.EOF when
// there are no more.
type Source func() (Request, error)
