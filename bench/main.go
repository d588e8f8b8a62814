// Command bench measures inference routers: it generates load, stands in for
// workers, compares Loadstar with other routers on one machine, breaks things
// around it, grows its fleet, and makes reports of what it found.
//
//	go run ./bench load|worker|compare|replay|routing|sim|report|faults|scale [flags]
//
// Everything it starts is on loopback and ends with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

func main() {
	// The second signal ends at once, as no handler is left then.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := app().RunContext(ctx, os.Args)
	var coded cli.ExitCoder
	switch {
	case err == nil:
		return
	case errors.As(err, &coded):
		if coded.Error() != "" {
			fmt.Fprintln(os.Stderr, "bench:", coded)
		}
		os.Exit(coded.ExitCode())
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(2)
}

func app() *cli.App {
	return &cli.App{
		Name:  "bench",
		Usage: "measure inference routers",
		Commands: []*cli.Command{
			loadCommand(), workerCommand(), compareCommand(), replayCommand(), routingCommand(), simCommand(), reportCommand(), faultsCommand(), scaleCommand(),
			nullCommand(), bareCommand(), natsCommand(),
		},
		HideVersion:    true,
		ExitErrHandler: func(*cli.Context, error) {}, // main ends the process
	}
}
