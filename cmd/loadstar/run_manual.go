package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"loadstar/cmd/loadstar/manual"
)

// completionConfig is for which shell a script is written.
type completionConfig struct {
	Shell string
}

// completionOptions is every flag of completion.
func completionOptions(c *completionConfig) []*option {
	return []*option{{
		name: "shell", arg: "SHELL", category: "completion", def: manual.Shells[0], from: ours,
		usage: "write for SHELL: bash, zsh or fish; --shell itself may be left out",
		one: func(value string) error {
			if !slices.Contains(manual.Shells, value) {
				return fmt.Errorf("%q is none of %s: give one of them", value, strings.Join(manual.Shells, ", "))
			}
			c.Shell = value
			return nil
		},
	}}
}

// writeCompletion is the completion command.
func (p program) writeCompletion(_ context.Context, c config) error {
	return manual.Completion(p.out, p.manual(), c.Completion.Shell)
}

// writeMan is the man command.
func (p program) writeMan(context.Context, config) error {
	return manual.Man(p.out, p.manual(),
		manual.Section{Title: "SIGNALS", Items: [][2]string{
			{"SIGTERM, SIGINT", "shut down: for --shutdown-delay-secs /readiness is 503 and requests are still taken, then those that run may end within --shutdown-grace-period-secs; a second one ends at once"},
			{"SIGHUP", "read files of keys, certificates and workers again"},
		}},
		manual.Section{Title: "EXIT STATUS", Items: [][2]string{
			{"0", "it was shut down and no request was cut off; of check, the router is well"},
			{"1", "something is wrong, and standard error says what"},
			{"2", "the command line or the environment is wrong"},
		}},
	)
}

// manual is the command line as data.
func (p program) manual() manual.Program {
	m := manual.Program{Name: "loadstar", Version: p.version, Usage: usage, About: description}
	for _, c := range append([]commandText{{synopsis: "[flags]"}}, commands...) {
		out := manual.Command{Name: c.name, Usage: c.usage, Synopsis: c.synopsis}
		if c.name == completionCommand {
			out.Choices = manual.Shells
		}
		for _, o := range commandOptions(new(config), c.name) {
			out.Flags = append(out.Flags, manual.Flag{
				Name: o.name, Arg: o.arg, Usage: o.usage, Category: o.category, Default: o.defaultText(), Env: envName(o.name),
			})
		}
		m.Commands = append(m.Commands, out)
	}
	return m
}
