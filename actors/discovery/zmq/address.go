package zmq

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"loadstar/actors/workerurl"
)

// maxText bounds the texts of a registration, in bytes. A host name has at most
// 253.
const maxText = 300

// httpAddress gives host:port as it stands in a canonical URL. The error
// continues a sentence that begins with the key.
func httpAddress(raw string) (string, error) {
	host, port, err := net.SplitHostPort(raw)
	if err != nil || host == "" || port == "" || strings.ContainsAny(raw, "/@?#") {
		return "", fmt.Errorf("is %q: a worker says host:port, with brackets around an IPv6 address", raw)
	}
	const scheme = "http://"
	base, err := workerurl.Canonical(scheme + raw)
	if err != nil {
		return "", fmt.Errorf("makes no URL: %w", err)
	}
	return base[len(scheme):], nil
}

// checkZMQAddress refuses what can't stand in a header, or would be mistaken in
// the request id that carries the addresses of both workers. The error continues
// a sentence that begins with the key.
func checkZMQAddress(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case strings.Contains(s, "___"):
		return fmt.Errorf("is %q: three underscores separate the addresses in a request id", s)
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("is %q: only visible ASCII characters are taken", s)
		}
	}
	return nil
}
