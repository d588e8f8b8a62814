package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"loadstar/proxy/statuspage"
)

// Options says what to show, and where.
type Options struct {
	URL  string // of the router's admin API
	Key  string // for it; empty for none
	Once bool   // show it once

	Out    io.Writer
	Size   func() (width, height int, ok bool) // of the terminal that Out is; false if it is none
	Colour bool                                // Out is a terminal that shows colours
}

// Base is the URL below which a router is asked, of what was typed.
func Base(typed string) (string, error) {
	if !strings.Contains(typed, "://") {
		typed = "http://" + typed
	}
	u, err := url.Parse(typed)
	switch {
	case err == nil && u.User != nil:
		return "", errors.New("a URL with a name or a password is not taken: give the key by --admin-api-key")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("this is no URL of a router: write it as http://HOST:PORT")
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/status"), nil
}

// retry is how long after the end of a stream the router is asked again.
const retry = time.Second

// Run shows the router's status until ctx ends. A router that doesn't answer is an
// error, unless it has answered before: then it is asked again. An Out that takes nothing
// is one, too.
func Run(ctx context.Context, o Options) error {
	client := &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	s := &screen{o: o}
	if !o.Once {
		s.begin()
		defer s.end()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen := false
	for {
		err := follow(ctx, client, o.URL, o.Key, func(f *statuspage.Frame) {
			if o.Once && seen {
				return
			}
			seen = true
			s.show(f)
			if o.Once || s.err != nil {
				stop()
			}
		})
		var no refusal
		switch {
		case s.err != nil:
			return s.err
		case ctx.Err() != nil:
			return nil
		case !seen || errors.As(err, &no):
			return fmt.Errorf("%s: %w", o.URL, err)
		}
		s.stale(err.Error())
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return nil
		}
	}
}
