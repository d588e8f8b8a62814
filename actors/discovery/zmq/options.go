package zmq

import (
	"log/slog"
	"time"
)

// Defaults of Options.
const (
	DefaultExpiry           = 15 * time.Second
	DefaultMaxRegistrations = 1024
)

// Options of a listener. The zero value means the defaults.
type Options struct {
	// Expiry is how long a registration outlives its last ping, and at most a
	// fifteenth more. Workers ping every 3 to 5 seconds.
	Expiry time.Duration

	// MaxRegistrations bounds the table. More workers are refused until others
	// expire. Four times as many connections are taken, for processes that share
	// a worker's address, and those that linger.
	MaxRegistrations int

	// MoRIIO is whether workers speak MoRI-IO. If so each must name its transfer
	// mode, and that of the first taken holds for as long as the process runs.
	MoRIIO bool

	// Log gets warnings, ten of a kind in ten seconds at most. Nil logs nothing.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Expiry <= 0 {
		o.Expiry = DefaultExpiry
	}
	if o.MaxRegistrations <= 0 {
		o.MaxRegistrations = DefaultMaxRegistrations
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
