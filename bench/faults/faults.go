// Package faults breaks things around a running router and measures what its
// clients notice: too much load, a worker that freezes, requests that every
// worker fails, and hours of ordinary use with clients that leave.
//
//	go run ./bench faults [-loadstar PATH] [-json FILE] [-logs DIR] SCENARIO...
//
// A scenario is one of overload, freeze, poison and soak; soak may be followed by
// -minutes N. Everything runs on this machine: the router's binary, built from
// this module if no path is given, and simulated workers, each a process of its
// own so that it can be stopped. The generator is open-loop: requests come as a
// Poisson process whatever becomes of the earlier ones. The exit code is 1 if a
// target is missed, and 2 if nothing could be measured.
package faults

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"loadstar/bench/compare"
)

// Command and SimulateCommand are the arguments that make the bench program run
// scenarios, and the two that make it a simulated worker; see Simulate.
const (
	Command         = "faults"
	SimulateCommand = "simulate"
)

// ErrTargetMissed is returned when a scenario measured something that is not as
// good as it must be.
var ErrTargetMissed = errors.New("a target is missed")

// scenario measures one thing with a bed that is its own.
type scenario interface {
	run(context.Context, *bed) (report, error)
}

// Run runs the scenarios that args name and prints their reports.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	binary := flags.String("loadstar", "", "the router's binary; without it, one is built")
	jsonFile := flags.String("json", "", "write the reports to this file too, as JSON")
	logs := flags.String("logs", "", "keep the routers' logs in this directory")
	flags.Usage = func() { // cli leaves this command's arguments alone, --help too
		fmt.Fprintf(flags.Output(), "bench faults [flags] SCENARIO...\n\nA scenario is overload, freeze, poison, or soak, which may be followed by -minutes N.\nThe exit code is 1 if a target is missed, and 2 if nothing could be measured.\n\n")
		flags.PrintDefaults()
	}
	err := flags.Parse(args)
	var scenarios []scenario
	if err == nil {
		scenarios, err = parseScenarios(flags.Args())
	}
	switch {
	case errors.Is(err, flag.ErrHelp): // it has been shown
		return nil
	case err != nil:
		return err
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *binary == "" {
		if *binary, err = compare.BuildLoadstar(ctx, dir); err != nil {
			return err
		}
	}
	if *logs == "" {
		*logs = dir
	} else if err := os.MkdirAll(*logs, 0o755); err != nil {
		return err
	}

	var reports []report
	for _, s := range scenarios {
		r, err := runOne(ctx, s, *binary, *logs)
		if err != nil {
			return err
		}
		r.print(os.Stdout)
		reports = append(reports, r)
	}
	if *jsonFile != "" {
		text, err := json.MarshalIndent(reports, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(*jsonFile, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	for _, r := range reports {
		if r.missed() {
			return ErrTargetMissed
		}
	}
	return nil
}

// runOne runs a scenario and ends every process that it started.
func runOne(ctx context.Context, s scenario, binary, logs string) (report, error) {
	b := &bed{binary: binary, logs: logs}
	defer b.end()
	return s.run(ctx, b)
}

func parseScenarios(args []string) ([]scenario, error) {
	var all []scenario
	for len(args) > 0 {
		name := args[0]
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		minutes := new(float64)
		if name == "soak" {
			minutes = flags.Float64("minutes", 10, "how long the load lasts")
		}
		if err := flags.Parse(args[1:]); err != nil {
			return nil, err
		}
		args = flags.Args()
		switch name {
		case "overload":
			all = append(all, fullOverload)
		case "freeze":
			all = append(all, fullFreeze)
		case "poison":
			all = append(all, fullPoison)
		case "soak":
			plan := fullSoak
			plan.lasts = time.Duration(*minutes * float64(time.Minute))
			all = append(all, plan)
		default:
			return nil, fmt.Errorf("scenario %q is none of overload, freeze, poison and soak", name)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no scenario is given: name overload, freeze, poison or soak")
	}
	return all, nil
}
