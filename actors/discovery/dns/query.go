package dns

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"loadstar/actors/workerurl"
)

// Query is what is asked for.
type Query struct {
	Name string // with a port, whose addresses; without, of a service, whose SRV records
	Port int    // 0 for SRV
}

// ParseQuery reads NAME:PORT or _SERVICE._PROTO.NAME.
func ParseQuery(text string) (Query, error) {
	name, service := strings.TrimSuffix(text, "."), strings.HasPrefix(text, "_")
	if service {
		labels := strings.SplitN(name, ".", 3)
		if len(labels) < 3 || !strings.HasPrefix(labels[1], "_") || !isName(name) {
			return Query{}, fmt.Errorf("%q is no service: write _SERVICE._PROTO.NAME, such as _http._tcp.vllm.example.com", text)
		}
		return Query{Name: name}, nil
	}
	host, port, err := net.SplitHostPort(text)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || n == 0 || !isName(strings.TrimSuffix(host, ".")) {
		return Query{}, fmt.Errorf("%q is neither NAME:PORT nor _SERVICE._PROTO.NAME", text)
	}
	return Query{Name: host, Port: int(n)}, nil
}

// String is the query as it was given.
func (q Query) String() string {
	if q.Port == 0 {
		return q.Name
	}
	return net.JoinHostPort(q.Name, strconv.Itoa(q.Port))
}

func isName(s string) bool {
	const longest = 253 // characters of a name
	return s != "" && len(s) <= longest && workerurl.IsHostName(s) && !strings.Contains(s, "..")
}

// errNotFound says that a name isn't known, or has no records.
var errNotFound = errors.New("the name is not known or has no records")

// plain is an error of a lookup in words that are the same at each attempt.
func plain(err error) error {
	var d *net.DNSError
	switch {
	case !errors.As(err, &d):
		return err
	case d.IsNotFound:
		return errNotFound
	case d.IsTimeout:
		return errors.New("the resolver does not answer in time")
	default:
		return errors.New("the resolver fails: " + withoutAddresses(d.Err))
	}
}

// withoutAddresses cuts off which ports a message went from and to.
func withoutAddresses(text string) string {
	if i := strings.LastIndex(text, ": "); i >= 0 && strings.Contains(text, "->") {
		return text[i+2:]
	}
	return text
}
