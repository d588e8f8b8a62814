//go:build !linux

package watch

import (
	"syscall"
	"time"
)

// poller is absent here: newPoller says so.
type poller struct{}

func newPoller(func(uint64, bool, time.Time)) (*poller, error) { return nil, ErrUnsupported }

func (p *poller) add(syscall.RawConn, uint64, bool) error { return ErrUnsupported }

func (p *poller) remove(syscall.RawConn) {}

func (p *poller) close() {}

func peek(syscall.RawConn, []byte) []byte { return nil }
