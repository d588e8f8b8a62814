package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"loadstar/bench/report"
	"loadstar/bench/routing"
)

func routingCommand() *cli.Command {
	return &cli.Command{
		Name: routing.Command, Usage: "measure how long first tokens take behind Loadstar and other routers, in situations that fleets get into",
		Description: "Scenarios: " + strings.Join(scenarioNames(routing.Scenarios("FILE", 1, 1)), "; ") + ".\n" +
			"Routers as in replay; the first one is judged by the others. A round takes half a minute for each router and scenario.\n" +
			"Each replay of a scenario has new workers and a new router. An interrupt ends it with a report of what there is.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "router", Usage: "measure `NAME`, or NAME:POLICY; may be repeated", Value: cli.NewStringSlice(
				"loadstar:least_work", "loadstar:cache_aware", "smg", "sglang-router", "vllm-router:cache_aware", "vllm-router:power_of_two")},
			&cli.StringSliceFlag{Name: "scenario", Usage: "measure only the one with this `NAME`; may be repeated"},
			&cli.StringFlag{Name: "trace", Usage: "have the scenarios of the trace in `FILE`, too"},
			&cli.IntFlag{Name: "rounds", Usage: "how often each router is measured", Value: 3},
			&cli.Uint64Flag{Name: "seed", Usage: "of the first round; those of the others follow", Value: 1},
			&cli.Float64Flag{Name: "length", Usage: "`FACTOR` for how long each replay takes", Value: 1},
			&cli.Float64Flag{Name: "scale", Usage: "`FACTOR` of the time scales: with .5 what isn't scaled, as the router's own time, counts half as much, and all takes twice as long", Value: 1},
			&cli.StringFlag{Name: "peers-dir", Usage: "look for programs in `DIR` before PATH, as in a virtual environment's bin"},
			&cli.StringFlag{Name: "loadstar", Usage: "Loadstar's `BINARY`; without it, one is built"},
			&cli.StringFlag{Name: "out", Usage: "raw results go to `FILE`", Value: "bench/results/DATE-routing.json"},
			&cli.IntFlag{Name: routerCore, Hidden: true, Value: -1},
		},
		Action: runRouting,
	}
}

func scenarioNames(all []routing.Scenario) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

func runRouting(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("%q is no flag: %s takes nothing else", c.Args().First(), routing.Command)
	}
	scenarios := routing.Scenarios(c.String("trace"), c.Float64("length"), c.Float64("scale"))
	if wanted := c.StringSlice("scenario"); len(wanted) > 0 {
		for _, name := range wanted {
			if !slices.Contains(scenarioNames(scenarios), name) {
				return fmt.Errorf("scenario %q: give one of %s; those of a trace need --trace", name, strings.Join(scenarioNames(scenarios), "; "))
			}
		}
		scenarios = slices.DeleteFunc(scenarios, func(s routing.Scenario) bool { return !slices.Contains(wanted, s.Name) })
	}
	if c.Int(routerCore) < 0 {
		return elsewhere(c, routing.Command)
	}
	programs, done, err := programsOf(c, true)
	if err != nil {
		return err
	}
	defer done()
	result, err := routing.Run(c.Context, scenarios, routing.Settings{
		Routers: c.StringSlice("router"), Rounds: c.Int("rounds"), Seed: c.Uint64("seed"), Core: c.Int(routerCore), Programs: programs,
	}, os.Stderr)
	if result == nil {
		return err
	}
	result.Command = commandLine()
	if errFile := writeRaw(c.String("out"), result); errFile != nil {
		return errors.Join(errFile, err)
	}
	return errors.Join(report.Routing(c.App.Writer, result, nil), err)
}
