package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/urfave/cli/v2"

	"loadstar/bench/compare"
	"loadstar/bench/replay"
	"loadstar/bench/workload"
)

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Usage: "replay a trace or a synthetic workload through routers and measure where its requests went",
		ArgsUsage: "WORKLOAD",
		Description: "A workload is one of " + strings.Join(workload.Synthetics(), ", ") + ", or the file of a trace: lines of\n" +
			"timestamp_ms,input_tokens,output_tokens,block ids (a+n for n+1 of them from a on), or JSON objects with\n" +
			"timestamp (ms), input_length, output_length and hash_ids; either may be compressed with gzip.\n" +
			"Routers: " + strings.Join(compare.Names(), ", ") + ".\n" +
			"Those are started before simulated workers, one after another in each round; nothing is installed.\n" +
			"The exit code is 1 if a request failed or was not sent.",
		Flags: append(setupFlags(),
			&cli.StringSliceFlag{Name: "router", Usage: "replay through `NAME`, or NAME:POLICY; may be repeated", Value: cli.NewStringSlice("loadstar")},
			&cli.StringSliceFlag{Name: "router-arg", Usage: "a further `ARGUMENT` of the routers; may be repeated"},
			&cli.IntFlag{Name: "copies", Usage: "start as many of each router, which get requests in turn", Value: 1},
			&cli.BoolFlag{Name: "nats", Usage: "have the copies of loadstar tell each other what they run, by a NATS server in this process"},
			&cli.StringFlag{Name: "url", Usage: "replay through the router that runs at `URL`, a generation on loopback, and start none"},
			&cli.StringSliceFlag{Name: "listen", Usage: "with --url: run a simulated worker at `ADDRESS`; may be repeated"},
			&cli.StringFlag{Name: "model", Usage: "with --url: `NAME` in the requests", Value: compare.Model},
			&cli.IntFlag{Name: "rounds", Usage: "how often each router is measured", Value: 1},
			&cli.Uint64Flag{Name: "seed", Usage: "of the first round; those of the others follow", Value: 1},
			&cli.Float64Flag{Name: "time-scale", Usage: "how much faster everything runs, workers included", DefaultText: "1, of a trace 20"},
			&cli.Uint64Flag{Name: "requests", Aliases: []string{"n"}, Usage: "stop after as many"},
			&cli.IntFlag{Name: "connections", Aliases: []string{"c"}, Usage: "requests under way at most; further ones are not sent but counted", Value: 1024},
			&cli.StringFlag{Name: "peers-dir", Usage: "look for programs in `DIR` before PATH, as in a virtual environment's bin"},
			&cli.StringFlag{Name: "loadstar", Usage: "Loadstar's `BINARY`; without it, one is built"},
			&cli.StringFlag{Name: "json", Usage: "write the result to this `FILE` as JSON; - for the standard output, instead of the table"},
			&cli.StringFlag{Name: "decisions", Usage: "replay nothing: sum up `FILE`, what /debug/decisions of Loadstar has shown; - for the standard input"},
			&cli.IntFlag{Name: routerCore, Hidden: true, Value: -1},
		),
		Action: runReplay,
	}
}

func runReplay(c *cli.Context) error {
	if name := c.String("decisions"); name != "" {
		return sumUp(c, name)
	}
	if c.NArg() != 1 {
		return fmt.Errorf("%d arguments: give one workload, behind the flags", c.NArg())
	}
	url := c.String("url")
	if url == "" && c.Int(routerCore) < 0 {
		return replayAgain(c)
	}
	setup, err := setupOf(c)
	if err != nil {
		return err
	}
	s := replay.Settings{
		Setup: setup, Routers: c.StringSlice("router"), RouterArgs: c.StringSlice("router-arg"),
		Copies: c.Int("copies"), NATS: c.Bool("nats"),
		URL: url, Listen: c.StringSlice("listen"), Model: c.String("model"),
		Rounds: c.Int("rounds"), Seed: c.Uint64("seed"), TimeScale: c.Float64("time-scale"),
		Requests: c.Uint64("requests"), Connections: c.Int("connections"), Core: c.Int(routerCore),
	}
	if url != "" && !c.IsSet("router") {
		s.Routers = nil
	}
	programs, done, err := programsOf(c, url == "")
	if err != nil {
		return err
	}
	defer done()
	s.Programs = programs
	result, err := replay.Run(c.Context, s, c.App.ErrWriter)
	if result == nil {
		return err
	}
	result.Command = commandLine()
	if errWrite := writeReport(c, result); errWrite != nil {
		return errors.Join(err, errWrite)
	}
	if err == nil && result.Failed() > 0 {
		return cli.Exit("", 1)
	}
	return err
}

// sumUp prints a summary of a log of decisions.
func sumUp(c *cli.Context, name string) error {
	if c.NArg() > 0 {
		return fmt.Errorf("--decisions takes no workload: leave out %s", c.Args().First())
	}
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	return replay.SumUp(in, c.App.Writer)
}

// replayAgain runs the command on the cores that are not the routers'. It says
// itself what is wrong.
func replayAgain(c *cli.Context) error {
	err := elsewhere(c, "replay")
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return cli.Exit("", exit.ExitCode())
	}
	return err
}
