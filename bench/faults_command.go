package main

import (
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"loadstar/bench/faults"
)

func faultsCommand() *cli.Command {
	return &cli.Command{
		Name: faults.Command, Usage: "break things around a router and measure what its clients notice",
		ArgsUsage: "[-loadstar PATH] [-json FILE] [-logs DIR] overload|freeze|poison|soak...",
		Description: "soak may be followed by -minutes N. The exit code is 1 if a target is missed, and 2 if nothing could be\n" +
			"measured.",
		SkipFlagParsing: true, // they may stand between scenarios
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) > 0 && args[0] == faults.SimulateCommand {
				return faults.Simulate(os.Stdin, os.Stdout)
			}
			err := faults.Run(c.Context, args)
			if errors.Is(err, faults.ErrTargetMissed) {
				return cli.Exit(err.Error(), 1)
			}
			return err
		},
	}
}
