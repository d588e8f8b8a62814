package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"loadstar/cmd/loadstar/top"

	"golang.org/x/term"
)

// topConfig is whose status is shown, and how.
type topConfig struct {
	URL  string // base of the admin API
	Key  string // for it; empty is none
	Once bool
}

// topOptions is every flag of top.
func topOptions(c *topConfig) []*option {
	const category = "top"
	return []*option{
		{
			name: "url", arg: "URL", category: category, def: "http://127.0.0.1:30000", from: ours,
			usage: "show the router whose admin API is at URL; --url itself may be left out",
			one: func(value string) (err error) {
				base, err := top.Base(value)
				if err == nil {
					c.URL = base
				}
				return err
			},
		},
		{
			name: "admin-api-key", arg: "KEY", category: category, from: ours, secret: true,
			usage: "present KEY, which the router was given by the flag of this name; other users of the machine see a command line, so prefer the variable",
			one:   readSetKey(&c.Key),
		},
		{
			name: "once", category: category, from: ours,
			usage: "show it once, and end",
			one:   readSwitch(&c.Once),
		},
	}
}

// showTop shows a router's status on standard output until a signal or until ctx
// ends.
func showTop(ctx context.Context, c config) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := int(os.Stdout.Fd())
	return top.Run(ctx, top.Options{
		URL: c.Top.URL, Key: c.Top.Key, Once: c.Top.Once, Out: os.Stdout,
		Size: func() (width, height int, ok bool) {
			width, height, err := term.GetSize(out)
			return width, height, err == nil && term.IsTerminal(out)
		},
		Colour: term.IsTerminal(out) && os.Getenv("NO_COLOR") == "",
	})
}
