package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestExhausted(t *testing.T) {
	dialled := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"none", nil, false},
		{"no ports", dialled(syscall.EADDRNOTAVAIL), true},
		{"no descriptors", dialled(syscall.EMFILE), true},
		{"no descriptors in the system", dialled(syscall.ENFILE), true},
		{"no buffers", dialled(syscall.ENOBUFS), true},
		{"no memory", dialled(syscall.ENOMEM), true},
		{"wrapped", fmt.Errorf("a check: %w", dialled(syscall.EMFILE)), true},
		{"lookup without descriptors", &net.OpError{Op: "dial", Err: &net.DNSError{Err: dialled(syscall.EMFILE).Error(), Name: "worker"}}, true},
		{"lookup of an unknown name", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "worker", IsNotFound: true}}, false},
		{"refused", dialled(syscall.ECONNREFUSED), false},
		{"unreachable", dialled(syscall.EHOSTUNREACH), false},
		{"too late", context.DeadlineExceeded, false},
		{"other", errors.New("too many open files"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := exhausted(tc.err); got != tc.want {
				t.Errorf("exhausted(%v) = %v, want %v", tc.err, got, tc.want)
			}
		})
	}
}
