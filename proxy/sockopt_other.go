//go:build !linux

package proxy

import (
	"syscall"
	"time"
)

func listenOptions(time.Duration) func(network, address string, raw syscall.RawConn) error {
	return nil
}

// unacknowledged can't tell here.
func unacknowledged(syscall.RawConn) (n int, ok bool) { return 0, false }
