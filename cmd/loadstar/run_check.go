package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"loadstar/cmd/loadstar/top"
)

// checkTimeout is how long a router may take to say how it is.
const checkTimeout = 5 * time.Second

// checkupConfig is which router is asked.
type checkupConfig struct {
	URL string // with its path
}

// checkOptions is every flag of check.
func checkOptions(c *checkupConfig) []*option {
	return []*option{{
		name: "url", arg: "URL", category: "check", def: "http://127.0.0.1:30000", from: ours,
		usage: "get URL, at /readiness if it has no path, and end with 0 if the answer is 2xx within 5 seconds, else with 1; --url itself may be left out",
		one: func(value string) error {
			base, err := top.Base(value)
			if err != nil {
				return err
			}
			if u, err := url.Parse(base); err == nil && u.Path == "" {
				base += "/readiness"
			}
			c.URL = base
			return nil
		},
	}}
}

// check asks a router how it is. It is an error if it isn't well, or doesn't say so.
func check(ctx context.Context, c config) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Check.URL, http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{ // asks that router itself: no proxy of the environment, no redirect
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the router does not answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024)) // as much as there is: the status says it already
		return fmt.Errorf("%s answers %s: %q", c.Check.URL, resp.Status, text)
	}
	return nil
}
