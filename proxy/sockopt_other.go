//go:build !linux

package proxy

import "syscall"

func listenOptions(_, _ string, _ syscall.RawConn) error { return nil }
