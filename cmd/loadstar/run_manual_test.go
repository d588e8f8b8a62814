package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"loadstar/cmd/loadstar/manual"
)

// written is what a command writes to standard output.
func written(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	p := program{version: "v1.2.3", out: &out}
	if err := p.run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Each script and the man page name every command, and every flag of each.
func TestManualsAreWhole(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		flag func(o *option) string // as it is written
	}{
		{"bash", []string{"completion", "bash"}, func(o *option) string { return "--" + o.name }},
		{"zsh", []string{"completion", "zsh"}, func(o *option) string { return "'--" + o.name + ":" }},
		{"fish", []string{"completion", "fish"}, func(o *option) string { return " -l " + o.name + " " }},
		{"man", []string{"man"}, func(o *option) string {
			return `\fB` + strings.ReplaceAll("--"+o.name, "-", `\-`) + `\fR`
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := written(t, tc.args...)
			for _, c := range commands {
				if !strings.Contains(text, c.name) {
					t.Errorf("no command %s", c.name)
				}
			}
			for _, o := range everyOption() {
				if !strings.Contains(text, tc.flag(o)) {
					t.Errorf("no %q", tc.flag(o))
				}
			}
		})
	}
	if page := written(t, "man"); !strings.Contains(page, "loadstar v1.2.3") || !strings.Contains(page, "LOADSTAR_WORKER_URLS") {
		t.Error("the man page lacks the version or the variables")
	}
}

// The shells that are there read the scripts, and bash completes by its own.
func TestCompletionInAShell(t *testing.T) {
	dir := t.TempDir()
	for _, shell := range manual.Shells {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			script := filepath.Join(dir, shell)
			if err := os.WriteFile(script, []byte(written(t, "completion", shell)), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path, "-n", script).CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v: %s", err, out)
			}
			if shell != "bash" {
				return
			}
			for _, tc := range []struct{ words, want string }{
				{"loadstar de", "demo"},
				{"loadstar --worker-u", "--worker-urls"},
				{"loadstar demo --lis", "--listen"},
				{"loadstar --lis", ""},
				{"loadstar --prefill http://a --prefill-p", "--prefill-policy"},
				{"loadstar top --o", "--once"},
				{"loadstar completion z", "zsh"},
				{"loadstar --log-dir /t", ""},
			} {
				run := "source " + script + "; COMP_WORDS=(" + tc.words + "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _loadstar; echo ${COMPREPLY[*]}"
				out, err := exec.Command(path, "-c", run).CombinedOutput()
				if got := strings.TrimSpace(string(out)); err != nil || got != tc.want {
					t.Errorf("%s: %q, %v, want %q", tc.words, got, err, tc.want)
				}
			}
		})
	}
}

func TestManualFaults(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"completion csh", `--shell: "csh" is none of bash, zsh, fish: give one of them`},
		{"completion zsh --port 1", "--port is not a flag"},
		{"man bash", `unexpected argument "bash"`},
	} {
		err := program{out: io.Discard}.run(t.Context(), strings.Fields(tc.args))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || exitCode(err) != 2 {
			t.Errorf("%s: error %v, want %s", tc.args, err, tc.want)
		}
	}
}
