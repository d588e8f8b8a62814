// Loadstar is a router for LLM inference workers.
package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// action is what a command does with a config that has been checked.
type action func(context.Context, config) error

// program is the command line as a whole: what its commands do, and what they are
// given from outside.
type program struct {
	version string
	env     environment
	out     io.Writer // takes --help and --version
	route   action    // the router
	demo    action    // the router on simulated workers
	top     action    // the status of a router that runs
	check   action    // whether a router is well
}

// usageError is all that is wrong with a command line.
type usageError []error

// Error gives each fault a line.
func (e usageError) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the faults.
func (e usageError) Unwrap() []error { return e }

// exitCode is what the process ends with: 2 for a wrong command line, as
// vllm-router does, 1 for any other error.
func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	default:
		return 1
	}
}

// run reads the arguments, without the program's name, and runs the command that
// they ask for. It returns a usageError if they are wrong.
func (p program) run(ctx context.Context, args []string) error {
	line := normalise(args, func(command string) []*option { return commandOptions(new(config), command) })
	full := []string{"loadstar"}
	if line.command != "" {
		full = append(full, line.command)
	}
	return newApp(p, line.faults).RunContext(ctx, append(full, line.args...))
}

// parse gives the config that args and env describe.
func parse(args []string, env environment) (config, error) {
	var parsed config
	keep := func(_ context.Context, c config) error {
		parsed = c
		return nil
	}
	err := program{env: env, out: io.Discard, route: keep, demo: keep, top: keep, check: keep}.run(context.Background(), args)
	return parsed, err
}

// What --help and the man page say of the program.
const (
	usage       = "a router for LLM inference workers"
	description = "Each flag can be set by the environment variable named in its brackets; a flag wins over\n" +
		"its variable. A list takes the values up to the next flag: --worker-urls URL1 URL2."
)

// newApp gives the application for a normalised argument list. faults were found
// in that list; they are reported together with those of the values.
func newApp(p program, faults []error) *cli.App {
	flags, route := command(p, "", faults, p.route)
	actions := map[string]action{
		demoCommand: p.demo, topCommand: p.top, checkCommand: p.check, completionCommand: p.writeCompletion, manCommand: p.writeMan,
	}
	all := make([]*cli.Command, len(commands))
	for i, c := range commands {
		of, do := command(p, c.name, faults, actions[c.name])
		all[i] = &cli.Command{
			Name: c.name, Usage: c.usage, UsageText: strings.TrimSpace("loadstar " + c.name + " " + c.synopsis),
			Flags: of, Action: do, HideHelpCommand: true,
		}
	}
	return &cli.App{
		Name:    "loadstar",
		Version: p.version,
		Usage:   usage,
		UsageText: "loadstar [flags]        route to the workers of --worker-urls, or of --prefill and --decode\n" +
			"loadstar demo [flags]   route to simulated workers\n" +
			"loadstar top [URL]      show what a running router does\n" +
			"loadstar check [URL]    ask whether a router is well",
		Description:     description,
		Writer:          p.out,
		Flags:           flags,
		Action:          route,
		HideHelpCommand: true,
		Commands:        all,
		ExitErrHandler:  func(*cli.Context, error) {}, // only main ends the process
	}
}

// command binds a command's flags to a config of its own, and its action to
// what is done with that.
func command(p program, name string, faults []error, do action) ([]cli.Flag, cli.ActionFunc) {
	c := config{Demo: name == demoCommand}
	opts := commandOptions(&c, name)
	flags := make([]cli.Flag, len(opts))
	for i, o := range opts {
		flags[i] = o
	}
	return flags, func(ctx *cli.Context) error {
		all := slices.Concat(faults, readAll(opts, p.env))
		if routes(name) {
			all = append(all, refusedByEnvironment(p.env)...)
			if !c.PD.Enabled {
				all = append(all, outsidePD(opts, p.env)...)
			}
			all = append(all, c.check()...)
		}
		if len(all) > 0 {
			return usageError(all)
		}
		return do(ctx.Context, c)
	}
}

// readAll reads every option and reports all that is wrong.
func readAll(opts []*option, env environment) []error {
	var faults []error
	for _, o := range opts {
		faults = append(faults, o.read(env)...)
	}
	return faults
}
