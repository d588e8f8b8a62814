package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"loadstar/bench/sim"
	"loadstar/bench/workload"
)

const reference = "reference"

func simCommand() *cli.Command {
	return &cli.Command{
		Name: "sim", Usage: "simulate the router's policies before workers, without sockets and in no time",
		ArgsUsage: "WORKLOAD",
		Description: "A workload is one of " + strings.Join(workload.Synthetics(), ", ") + ", the file of a trace as in replay, or\n" +
			reference + " for the scenarios that routing was designed with, where only --rule, --seed, --seeds, --trace and\n" +
			"the flags of the router's view apply.\n" +
			"Rules: " + strings.Join(sim.Rules(), ", ") + ".\n" +
			"Settings of a policy follow behind colons, as in least_work:c=0.5:cap=4.",
		Flags: append(setupFlags(),
			&cli.StringSliceFlag{Name: "rule", Usage: "simulate `RULE`; may be repeated", Value: cli.NewStringSlice(
				"round_robin", "load", "cache_aware", "(miss+pending)*(load+1)", "miss*(load+1)", "miss+pending", "2*miss+pending", "least_work")},
			&cli.Uint64Flag{Name: "seed", Usage: "the first one", Value: 1},
			&cli.IntFlag{Name: "seeds", Usage: "how many", Value: 5},
			&cli.StringFlag{Name: "trace", Usage: "with " + reference + ": also the scenarios of the trace in `FILE`"},
			&cli.Float64Flag{Name: "rest", Usage: "seconds between the requests of a conversation, at least", Value: 1},
			&cli.Float64Flag{Name: "token-ms", Usage: "time between the tokens of an answer", Value: 10},
			&cli.IntFlag{Name: "view-bytes", Usage: "size of the router's prefix tree", Value: 32 << 20},
			&cli.IntFlag{Name: "view-blocks", Usage: "instead of a tree, let the router remember as many blocks of each worker", DefaultText: "none, of " + reference + " twice the cache"},
			&cli.BoolFlag{Name: "no-usage", Usage: "answers don't tell what was cached, so the router doesn't learn what workers keep"},
			&cli.StringFlag{Name: "give-back", Usage: "when pending work ends: with the `first` token, with the head of an answer that comes at once, with its end", Value: sim.AtFirst},
			&cli.IntFlag{Name: "backlog-tokens", Usage: "least_work and kv_aware send a worker no more while it has as many tokens that it hasn't come to; 0 for no bound", Value: sim.RouterBacklog, DefaultText: fmt.Sprintf("%d, of %s no bound", sim.RouterBacklog, reference)},
			&cli.StringFlag{Name: "json", Usage: "write the result to this `FILE` as JSON; - for the standard output, instead of the table"},
		),
		Action: runSim,
	}
}

func runSim(c *cli.Context) error {
	if c.NArg() != 1 {
		return fmt.Errorf("%d arguments: give one workload, behind the flags", c.NArg())
	}
	scenarios, err := simScenarios(c)
	if err != nil {
		return err
	}
	var rules []sim.Rule
	for _, name := range c.StringSlice("rule") {
		rules = append(rules, sim.Rule(name))
	}
	result, err := sim.Simulate(c.Context, scenarios, rules, c.Uint64("seed"), c.Int("seeds"), c.App.ErrWriter)
	if result == nil {
		return err
	}
	for i := range result.Rows {
		result.Rows[i].Settings.Workload = result.Rows[i].Settings.Name()
	}
	result.Command = commandLine()
	return errors.Join(err, writeReport(c, result))
}

// simScenarios are those that the command line asks for.
func simScenarios(c *cli.Context) ([]sim.Scenario, error) {
	if c.Args().First() == reference {
		all := sim.Reference(c.String("trace"))
		for i := range all {
			s := &all[i].Settings
			if c.IsSet("view-bytes") {
				s.ViewBytes, s.ViewBlocks = c.Int("view-bytes"), 0
			}
			if c.IsSet("view-blocks") {
				s.ViewBlocks = c.Int("view-blocks")
			}
			s.GiveBack = c.String("give-back")
			if c.IsSet("backlog-tokens") {
				s.Backlog = c.Int("backlog-tokens")
			}
		}
		return all, nil
	}
	setup, err := setupOf(c)
	s := sim.Settings{
		Setup: setup, Rest: c.Float64("rest"), TokenTime: c.Float64("token-ms"),
		ViewBytes: c.Int("view-bytes"), ViewBlocks: c.Int("view-blocks"), GiveBack: c.String("give-back"), NoUsage: c.Bool("no-usage"),
		Backlog: c.Int("backlog-tokens"),
	}
	return []sim.Scenario{{Name: setup.Name(), Settings: s.WithDefaults()}}, err
}
