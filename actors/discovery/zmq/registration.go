package zmq

import "loadstar/actors"

// Registration is what a worker says of itself. Its role and its HTTP address
// are its identity: one address may be registered in both roles.
type Registration struct {
	Role        actors.Role // Prefill or Decode
	HTTPAddress string      // host:port in lower case, IPv6 in brackets; behind http:// it is a canonical base URL
	ZMQAddress  string      // where other workers reach it; opaque, safe in a header and in a P/D request id
	Mode        Mode        // how it hands over its KV cache; NoMode unless it speaks MoRI-IO
	TPSize      int         // tensor-parallel ranks; 1 unless it speaks MoRI-IO
	DPSize      int         // data-parallel ranks; 1 unless it speaks MoRI-IO
}

// Mode says who moves the KV cache between MoRI-IO workers.
type Mode uint8

// Modes.
const (
	NoMode Mode = iota // not a MoRI-IO worker
	Read               // decode reads from prefill
	Write              // prefill writes to decode
)

var modeNames = [...]string{"none", "READ", "WRITE"}

// String returns the name that workers use.
func (m Mode) String() string { return modeNames[m] }

// A Fleet takes what the listener learns. Its methods are called by one
// goroutine, never two at a time, and those about one worker in order. Each
// should return within milliseconds: others wait for it, and Close does.
type Fleet interface {
	// Register adds a worker. It may not serve yet: engines register before
	// they open their port. After an error the fleet doesn't have the worker,
	// and the call is repeated while its pings go on.
	Register(Registration) error

	// Replace changes what is known of a worker of the same identity, which was
	// started again with another ZMQ address or other sizes. After an error the
	// fleet has it as before, and the call is repeated while its pings go on.
	Replace(old, changed Registration) error

	// Expire removes a worker whose pings stayed away.
	Expire(Registration)
}
