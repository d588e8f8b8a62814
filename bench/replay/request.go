package replay

import "time"

// request is one of a workload's.
type request struct {
	at     time.Duration // since the first one
	blocks []uint64      // ids of the prompt's blocks
	input  int           // tokens of the prompt; unknown if nothing says
	output int           // tokens of the answer, likewise
}

// unknown is a number of tokens that a trace doesn't tell.
const unknown = -1

// workload gives requests in the order of their times. Its error is io.EOF when
// there are no more.
type workload func() (request, error)
