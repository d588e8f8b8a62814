package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"loadstar/bench/load"
)

func loadCommand() *cli.Command {
	return &cli.Command{
		Name: "load", Usage: "send requests to a server and measure its answers", ArgsUsage: "URL",
		Description: "Without --rate it is a closed loop: each connection sends when it has been answered.\n" +
			"With it, requests come as a Poisson process and times count from when they were due.\n" +
			"The exit code is 1 if a request failed.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "connections", Aliases: []string{"c"}, Usage: "requests under way; with --rate, at most", Value: 32},
			&cli.Float64Flag{Name: "rate", Aliases: []string{"r"}, Usage: "requests a second of an open loop"},
			&cli.DurationFlag{Name: "duration", Aliases: []string{"d"}, Usage: "how long requests are begun", Value: 10 * time.Second},
			&cli.Uint64Flag{Name: "requests", Aliases: []string{"n"}, Usage: "stop after as many"},
			&cli.DurationFlag{Name: "warm-up", Usage: "leave out the times of answers that end before"},
			&cli.DurationFlag{Name: "timeout", Usage: "of one request", Value: time.Minute},
			&cli.Uint64Flag{Name: "seed", Usage: "of the arrivals", Value: 1},
			&cli.StringFlag{Name: "model", Usage: "`NAME` in the requests", Value: "sim"},
			&cli.IntFlag{Name: "bytes", Usage: "size of a body", Value: 200},
			&cli.BoolFlag{Name: "stream", Usage: "ask for events"},
			&cli.IntFlag{Name: "max-tokens", Usage: "ask for at most as many"},
			&cli.BoolFlag{Name: "unique", Usage: "no two prompts share a prefix; otherwise all are the same"},
			&cli.StringSliceFlag{Name: "header", Aliases: []string{"H"}, Usage: "a further `NAME:VALUE`"},
			&cli.StringFlag{Name: "json", Usage: "write the report to this `FILE` as JSON; - for the standard output, instead of the table"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no progress on the standard error"},
		},
		Action: runLoad,
	}
}

func runLoad(c *cli.Context) error {
	if c.NArg() != 1 {
		return fmt.Errorf("%d arguments: give one URL, behind the flags", c.NArg())
	}
	chat := load.Chat{Model: c.String("model"), Bytes: c.Int("bytes"), Stream: c.Bool("stream"), MaxTokens: c.Int("max-tokens")}
	cfg := load.Config{
		URL: c.Args().First(), Header: make(http.Header), Source: chat.Same(), Timeout: c.Duration("timeout"),
		Connections: c.Int("connections"), Duration: c.Duration("duration"), Requests: c.Uint64("requests"), WarmUp: c.Duration("warm-up"),
	}
	if c.Bool("unique") {
		cfg.Source = chat.Unique()
	}
	for _, h := range c.StringSlice("header") {
		name, value, found := strings.Cut(h, ":")
		if !found {
			return fmt.Errorf("header %q: give it as NAME:VALUE", h)
		}
		cfg.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if rate := c.Float64("rate"); rate > 0 {
		cfg.Arrivals = load.Poisson(rate, c.Uint64("seed"))
	} else if c.IsSet("rate") {
		return fmt.Errorf("rate %v: give a number above 0", rate)
	}
	if !c.Bool("quiet") {
		cfg.Progress = os.Stderr
	}
	report, err := load.Run(c.Context, cfg)
	if err != nil {
		return err
	}
	if err := writeReport(c, report); err != nil {
		return err
	}
	if report.Failed() > 0 {
		return cli.Exit("", 1)
	}
	return nil
}

// writeReport writes a report as the flag json says.
func writeReport(c *cli.Context, report interface{ Print(io.Writer) error }) error {
	file := c.String("json")
	if file != "-" {
		if err := report.Print(c.App.Writer); err != nil {
			return err
		}
	}
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if file == "-" {
		_, err = c.App.Writer.Write(text)
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
