//go:build !linux

package takeover

import (
	"errors"
	"net"
	"syscall"
)

// Supported says whether sockets can be handed over on this platform.
const Supported = false

func private(string, string, syscall.RawConn) error { return errors.ErrUnsupported }

func peerUser(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }

func sendSockets(*net.UnixConn, []byte, []net.Listener) error { return errors.ErrUnsupported }

func receiveSockets(*net.UnixConn) ([]byte, []net.Listener, error) {
	return nil, nil, errors.ErrUnsupported
}
