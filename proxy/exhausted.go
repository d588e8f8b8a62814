package proxy

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// shortages are what the system says when this process, or its machine, has none
// left of what a socket takes.
var shortages = [...]syscall.Errno{syscall.EADDRNOTAVAIL, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}

// exhausted reports whether err comes of a shortage here, of which no worker and no
// client is the cause.
func exhausted(err error) bool {
	var lookup *net.DNSError // keeps only the text of what went wrong
	isLookup := errors.As(err, &lookup)
	for _, s := range shortages {
		if errors.Is(err, s) || isLookup && strings.Contains(lookup.Err, s.Error()) {
			return true
		}
	}
	return false
}
