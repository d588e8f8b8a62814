//go:build !linux

package proxy

import (
	"syscall"
	"time"
)

func listenOptions(time.Duration) func(network, address string, raw syscall.RawConn) error {
	return nil
}
