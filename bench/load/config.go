package load

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	maxConnections = 1 << 16
	defaultTimeout = time.Minute
)

// Config describes a load. It ends by Duration or by Requests, whichever comes
// first, or with its arrivals; at least one must say so.
type Config struct {
	URL     string      // http only, with the path of the generation
	Also    []string    // further such URLs: requests take turns with them, in a closed loop connections
	Header  http.Header // beside Host, Content-Type and Content-Length
	Source  Source
	Timeout time.Duration // of one request, connecting included; a minute if 0

	// Connections is how many requests are under way in a closed loop, and how
	// many may be in an open one, whose further ones are not sent but counted.
	Connections int
	// Arrivals makes the loop an open one.
	Arrivals Arrivals

	// Duration is how long requests are begun; 0 for no such bound. In a closed loop
	// each connection sends one at least.
	Duration time.Duration
	Requests uint64 // 0 for no such bound
	// WarmUp is how long after the start results are left out of the report,
	// except for errors.
	WarmUp time.Duration

	// Progress is told each half second how things stand; nil for nobody.
	Progress io.Writer
	// Ended is told of each request that has ended or was not sent; nil for nobody.
	// It is called by several goroutines at once.
	Ended func(Ended)
	// Tail is how many bytes of the end of an answer's body Ended is given.
	Tail int
}

// targets are where requests go in turn.
func (c Config) targets() ([]*target, error) {
	var all []*target
	for _, to := range append([]string{c.URL}, c.Also...) {
		t, err := c.target(to)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (c Config) target(to string) (*target, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("URL %q: give one like http://127.0.0.1:30000/v1/chat/completions", to)
	}
	if c.Source == nil {
		return nil, errors.New("nothing to send: the source is nil")
	}
	if c.Connections < 1 || c.Connections > maxConnections {
		return nil, fmt.Errorf("%d connections: give 1 to %d", c.Connections, maxConnections)
	}
	if c.Duration <= 0 && c.Requests == 0 && c.Arrivals == nil {
		return nil, errors.New("a closed loop needs a duration or a number of requests")
	}
	t := &target{address: u.Host, timeout: c.Timeout, tail: c.Tail}
	if u.Port() == "" {
		t.address += ":80"
	}
	if t.timeout <= 0 {
		t.timeout = defaultTimeout
	}
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: %s\r\n", u.RequestURI(), u.Host)
	header := c.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	header.Del("Content-Length")
	if err := header.Write(&head); err != nil {
		return nil, err
	}
	head.WriteString("Content-Length: ")
	t.head = []byte(head.String())
	return t, nil
}
