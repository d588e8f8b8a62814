package actors

// Cause says how a lease ended. The zero value is the pessimistic one, for
// defers that run early.
type Cause uint8

// Causes. Each is the label of a metric and decides what the breaker learns.
const (
	Aborted           Cause = iota // the handler gave up or panicked
	Completed                      // the worker answered in full, with a status below 400
	ClientError                    // the worker answered 4xx, other than 429
	Busy                           // the worker answered 429 or 503: full, not broken
	ServerError                    // the worker answered another 5xx
	ClientGone                     // the client left first
	ConnectFailed                  // no connection to the worker
	RouterExhausted                // no connection, for want of sockets or memory at this router
	UpstreamReset                  // the worker closed before the head of its answer
	UpstreamTimeout                // the worker was silent for too long
	UpstreamInvalid                // what the worker sent is not HTTP
	UpstreamTruncated              // the worker broke off inside its answer
	StreamFailed                   // the worker told of an error inside its stream, whose status said that all was well
	Moved                          // a reservation that another worker was taken for
	numCauses
)

var causeNames = [numCauses]string{
	"aborted", "completed", "client_error", "busy", "server_error", "client_gone", "connect_failed",
	"router_exhausted", "upstream_reset", "upstream_timeout", "upstream_invalid", "upstream_truncated", "stream_failed", "moved",
}

// String returns the metric label of the cause.
func (c Cause) String() string { return causeNames[c] }

// Causes lists every cause, in order.
func Causes() []Cause {
	all := make([]Cause, numCauses)
	for i := range all {
		all[i] = Cause(i)
	}
	return all
}

// CauseOf returns the cause of a lease whose worker answered in full with the
// given HTTP status.
func CauseOf(status int) Cause {
	switch {
	case status == 429 || status == 503:
		return Busy
	case status >= 500:
		return ServerError
	case status >= 400:
		return ClientError
	default:
		return Completed
	}
}

// verdict is what a breaker learns from a cause.
type verdict uint8

const (
	neutral verdict = iota
	good
	bad
)

// verdict says whether the worker proved itself, failed, or neither. A client's
// mistake, a client that leaves, a worker that is merely full and a router that
// has run out of sockets say nothing about whether the worker works.
func (c Cause) verdict() verdict {
	switch c {
	case Completed:
		return good
	case ServerError, ConnectFailed, UpstreamReset, UpstreamTimeout, UpstreamInvalid, UpstreamTruncated, StreamFailed:
		return bad
	default:
		return neutral
	}
}

// answered reports whether the worker answered in full, whatever it said: it is
// alive.
func (c Cause) answered() bool {
	switch c {
	case Completed, ClientError, Busy, ServerError:
		return true
	default:
		return false
	}
}
