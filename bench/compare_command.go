package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"loadstar/bench/compare"
	"loadstar/bench/report"
)

// routerCore is the flag by which compare knows that it runs on the cores that are
// not the routers'.
const routerCore = "router-core"

func compareCommand() *cli.Command {
	return &cli.Command{
		Name: "compare", Usage: "measure Loadstar beside every other router that is found",
		Description: "Routers: " + strings.Join(compare.Names(), ", ") + ".\n" +
			"Those that are missing are named with how to get them; nothing is installed. It takes about 12 minutes.\n" +
			"An interrupt ends it with a report of what there is.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "rounds", Usage: "how often each router is measured", Value: 3},
			&cli.Float64Flag{Name: "seconds", Usage: "of each measurement", Value: 2},
			&cli.IntFlag{Name: "streams", Usage: "open at once, for the memory of one", Value: 1000},
			&cli.IntFlag{Name: "leavings", Usage: "clients that leave, before headers and in mid-stream", Value: 100},
			&cli.Uint64Flag{Name: "prompts", Usage: "unique prompts of 4 kB, for growth", Value: 20_000},
			&cli.StringSliceFlag{Name: "router", Usage: "measure only this `NAME`; may be repeated"},
			&cli.StringFlag{Name: "peers-dir", Usage: "look for programs in `DIR` before PATH, as in a virtual environment's bin"},
			&cli.StringFlag{Name: "loadstar", Usage: "Loadstar's `BINARY`; without it, one is built"},
			&cli.StringFlag{Name: "out", Usage: "raw results go to `FILE`", Value: "bench/results/DATE-compare.json"},
			&cli.IntFlag{Name: routerCore, Hidden: true, Value: -1},
		},
		Action: runCompare,
	}
}

func runCompare(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("%q is no flag: compare takes nothing else", c.Args().First())
	}
	if c.Int(routerCore) < 0 {
		return elsewhere(c, "compare")
	}
	programs, done, err := programsOf(c, true)
	if err != nil {
		return err
	}
	defer done()
	s := compare.Settings{
		Rounds: c.Int("rounds"), Seconds: c.Float64("seconds"), Streams: c.Int("streams"), Leavings: c.Int("leavings"),
		Prompts: c.Uint64("prompts"), Only: c.StringSlice("router"), Core: c.Int(routerCore), Programs: programs,
	}
	result, err := compare.Run(c.Context, s, os.Stderr)
	if result == nil {
		return err
	}
	result.Command = commandLine()
	if errFile := writeRaw(c.String("out"), result); errFile != nil {
		return errFile
	}
	return errors.Join(report.Compare(c.App.Writer, result, nil), err)
}

const routerCoreArg = "--" + routerCore + "="

// elsewhere runs a command again on the cores that are not the routers', and tells it
// theirs.
func elsewhere(c *cli.Context, command string) error {
	return compare.Again(c.Context, func(core int) []string {
		return append([]string{command, routerCoreArg + strconv.Itoa(core)}, os.Args[2:]...)
	})
}

// commandLine is the command that was given, as results show it.
func commandLine() string {
	given := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, routerCoreArg) })
	return "go run ./bench " + strings.Join(shown(given), " ")
}

// programsOf is what the flags say of programs. Loadstar is built where it is
// wanted and not named; done takes it away again.
func programsOf(c *cli.Context, wanted bool) (p compare.Programs, done func(), err error) {
	p, done = compare.Programs{PeersDir: c.String("peers-dir"), Loadstar: c.String("loadstar")}, func() {}
	if p.Bench, err = os.Executable(); err != nil || p.Loadstar != "" || !wanted {
		return p, done, err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return p, done, err
	}
	fmt.Fprintln(os.Stderr, "building loadstar")
	if p.Loadstar, err = compare.BuildLoadstar(c.Context, dir); err != nil {
		return p, done, errors.Join(err, os.RemoveAll(dir))
	}
	return p, func() { _ = os.RemoveAll(dir) }, nil
}

// shown are arguments without the paths of one machine.
func shown(args []string) []string {
	var all []string
	for _, a := range args {
		flag, value, both := strings.Cut(a, "=")
		if !both {
			flag, value = "", a
		}
		if filepath.IsAbs(value) {
			value = filepath.Base(value)
		}
		if both {
			value = flag + "=" + value
		}
		all = append(all, value)
	}
	return all
}
