package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"loadstar/bench/report"
	"loadstar/bench/scale"
)

func scaleCommand() *cli.Command {
	return &cli.Command{
		Name: scale.Command, Usage: "measure whether the cost stays the same as the fleet and the number of streams grow",
		Description: "Parts: " + strings.Join(scale.Parts, ", ") + ". It takes about 8 minutes.\n" +
			"An interrupt ends it with a report of what there is.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "rounds", Usage: "how often each figure is measured", Value: 5},
			&cli.Float64Flag{Name: "seconds", Usage: "of each measurement of requests", Value: 1},
			&cli.Float64Flag{Name: "idle", Usage: "seconds in which an idle router and open streams are watched", Value: 10},
			&cli.Uint64Flag{Name: "prompts", Usage: "that requests have, again and again", Value: 1024},
			&cli.IntSliceFlag{Name: "fleet", Usage: "`NUMBER` of workers that requests go to; may be repeated, the first is compared with", Value: cli.NewIntSlice(4, 64, 512)},
			&cli.IntFlag{Name: "workers", Usage: "of an idle router, and of one whose pages are asked for", Value: 1000},
			&cli.IntFlag{Name: "streams", Usage: "open at once", Value: 10_000},
			&cli.IntFlag{Name: "scrapes", Usage: "of each page in a round", Value: 100},
			&cli.StringSliceFlag{Name: "part", Usage: "measure only this `PART`; may be repeated"},
			&cli.StringFlag{Name: "loadstar", Usage: "Loadstar's `BINARY`; without it, one is built"},
			&cli.StringFlag{Name: "out", Usage: "raw results go to `FILE`", Value: "bench/results/DATE-scale.json"},
			&cli.IntFlag{Name: routerCore, Hidden: true, Value: -1},
		},
		Action: runScale,
		Subcommands: []*cli.Command{{
			Name: scale.WorkersCommand, Hidden: true, SkipFlagParsing: true,
			Action: func(c *cli.Context) error { return scale.ServeWorkers(c.Args().Slice(), os.Stdin, os.Stdout) },
		}},
	}
}

func runScale(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("%q is no flag: scale takes nothing else", c.Args().First())
	}
	if c.Int(routerCore) < 0 {
		return elsewhere(c, scale.Command)
	}
	programs, done, err := programsOf(c, true)
	if err != nil {
		return err
	}
	defer done()
	result, err := scale.Run(c.Context, scale.Settings{
		Rounds: c.Int("rounds"), Seconds: c.Float64("seconds"), Idle: c.Float64("idle"), Prompts: c.Uint64("prompts"), Fleets: c.IntSlice("fleet"), Fleet: c.Int("workers"),
		Streams: c.Int("streams"), Scrapes: c.Int("scrapes"), Parts: c.StringSlice("part"), Core: c.Int(routerCore), Programs: programs,
	}, os.Stderr)
	if result == nil {
		return err
	}
	result.Command = commandLine()
	if errFile := writeRaw(c.String("out"), result); errFile != nil {
		return errors.Join(errFile, err)
	}
	return errors.Join(report.Scale(c.App.Writer, result), err)
}

// writeRaw writes raw results as JSON to a file, with the day where its name says DATE.
func writeRaw(file string, result any) error {
	file = strings.ReplaceAll(file, "DATE", time.Now().UTC().Format(time.DateOnly))
	text, err := json.MarshalIndent(result, "", " ")
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, append(text, '\n'), 0o644)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "raw results: %s\n", file)
	return nil
}
