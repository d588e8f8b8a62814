package main

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// faultsOf gives the lines of a usage error.
func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	var usage usageError
	if !errors.As(err, &usage) {
		t.Fatalf("error %v, want a usageError", err)
	}
	return strings.Split(usage.Error(), "\n")
}

// checkConfig compares what args and env give with the defaults after change.
func checkConfig(t *testing.T, args []string, env environment, change func(*config)) {
	t.Helper()
	want := defaultConfig
	change(&want)
	got, err := parse(args, env)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q gave\n%+v, want\n%+v", args, got, want)
	}
}

func TestCommandsRun(t *testing.T) {
	broken := errors.New("broken")
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "same")
	for _, c := range []struct {
		name string
		args []string
		want string
		err  error
		code int
	}{
		{"router", []string{"--port", "1"}, "route", nil, 0},
		{"demo", []string{"demo", "--port", "1"}, "demo", nil, 0},
		{"an error of the action", []string{"--port", "1"}, "route", broken, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ran := ""
			do := func(name string) action {
				return func(got context.Context, conf config) error {
					ran += name
					if got.Value(key{}) != "same" || conf.Listen.Port != 1 {
						t.Errorf("context %v and port %d, want the caller's and 1", got, conf.Listen.Port)
					}
					return c.err
				}
			}
			err := program{out: io.Discard, route: do("route"), demo: do("demo")}.run(ctx, c.args)
			if ran != c.want || !errors.Is(err, c.err) || exitCode(err) != c.code {
				t.Errorf("ran %q, error %v, exit code %d, want %q, %v, %d", ran, err, exitCode(err), c.want, c.err, c.code)
			}
		})
	}
}

// cli ends the process when an error carries an exit code; only main may.
func TestAnErrorWithACodeDoesNotEndTheProcess(t *testing.T) {
	exit := cli.OsExiter
	t.Cleanup(func() { cli.OsExiter = exit })
	cli.OsExiter = func(code int) { t.Errorf("the process was ended with %d", code) }
	coded := cli.Exit("", 3)
	do := func(context.Context, config) error { return coded }
	for _, args := range [][]string{nil, {"demo"}} {
		if err := (program{route: do, demo: do}).run(t.Context(), args); !errors.Is(err, coded) {
			t.Errorf("error %v, want %v", err, coded)
		}
	}
}

func TestFaultsAreReportedTogether(t *testing.T) {
	ran := false
	do := func(context.Context, config) error {
		ran = true
		return nil
	}
	err := program{out: io.Discard, route: do, demo: do}.run(t.Context(), strings.Fields(
		"--worker-urls b:2 http://c:3,http://d:4 --wrong --policy power_of_two --port 70000 --mini-lb --retry-initial-backoff-ms 90000 --tls-key-path k"))
	want := []string{
		"--wrong is not a flag: see --help",
		"--mini-lb is not supported: there is no second, simpler balancer in here; leave it out",
		`--port: "70000" is not a whole number from 0 to 65535`,
		`--worker-urls: "b:2" has no scheme: write it as http://HOST:PORT`,
		`--worker-urls: "http://c:3,http://d:4" holds a comma or a space: give one URL in each argument, separated by spaces: --worker-urls http://A:8000 http://B:8000`,
		"--retry-max-backoff-ms (30000) is below --retry-initial-backoff-ms (90000): raise the first or lower the second",
		"--tls-key-path needs --tls-cert-path: give both, or neither for plain HTTP",
	}
	if got := faultsOf(t, err); !reflect.DeepEqual(got, want) {
		t.Errorf("faults\n%q, want\n%q", got, want)
	}
	if ran {
		t.Error("the router ran with a faulty command line")
	}
	if got := exitCode(err); got != 2 {
		t.Errorf("exit code %d, want 2", got)
	}
}

func TestHelpAndVersion(t *testing.T) {
	never := func(context.Context, config) error {
		t.Error("the action ran")
		return errors.ErrUnsupported
	}
	for _, c := range []struct {
		name string
		args []string
		want []string // each in the output, in this order
	}{
		{"help", []string{"--help"}, []string{"loadstar demo [flags]", "--help", "--version", "\n   address\n", "--host HOST\n", "(default: 127.0.0.1)", "[LOADSTAR_HOST]", "\n   circuit breakers\n", "--disable-circuit-breaker\n", "\n   workers\n", "--worker-urls URL ...\n"}},
		{"help of the demo", []string{"demo", "-h"}, []string{"loadstar demo", "\n   demo\n", "--listen HOST:PORT", "--worker-startup-timeout-secs"}},
		{"help in spite of faults", []string{"--port", "x", "--wrong", "--help"}, []string{"--host HOST"}},
		{"version", []string{"--version"}, []string{"loadstar version v1.2.3\n"}},
		{"version of the demo", []string{"demo", "-v"}, []string{"loadstar version v1.2.3\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if err := (program{version: "v1.2.3", out: &out, route: never, demo: never}).run(t.Context(), c.args); err != nil {
				t.Fatal(err)
			}
			rest := out.String()
			for _, w := range c.want {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Fatalf("output\n%s\nwant %q next in it", out.String(), w)
				}
				rest = after
			}
		})
	}
}
