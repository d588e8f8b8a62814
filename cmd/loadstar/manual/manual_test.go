package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nasty has all that a shell or the formatter of man pages would take for its own.
var nasty = Program{
	Name: "prog", Version: "v1-2", Usage: `it's "one"`, About: ".TH of it\nand 'more' $(touch x) `touch x`",
	Commands: []Command{
		{Flags: []Flag{{Name: "a-b", Arg: "X", Usage: `.it's a\b: $(touch x), [y] "z" | #`, Category: "some", Default: `-\`, Env: "PROG_A_B"}}},
		{Name: "go", Usage: "don't: go", Synopsis: "[X]", Choices: []string{"one", "two"}},
	},
}

// Texts stay texts, whatever is in them.
func TestTextsAreQuoted(t *testing.T) {
	for _, tc := range []struct{ shell, want string }{
		{"bash", "--a-b"},
		{"zsh", `'--a-b:.it'\''s a\\b: $(touch x), [y] "z" | #'`},
		{"fish", `-l a-b -r -d '.it\'s a\\b: $(touch x), [y] "z" | #'`},
	} {
		t.Run(tc.shell, func(t *testing.T) {
			var b strings.Builder
			if err := Completion(&b, nasty, tc.shell); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), tc.want) {
				t.Errorf("%s\nwant %s in it", b.String(), tc.want)
			}
			path, err := exec.LookPath(tc.shell)
			if err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			script := filepath.Join(dir, "script")
			if err := os.WriteFile(script, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"-n", script}, {"-c", "compdef() { :; }; . " + script}} {
				if tc.shell == "fish" {
					args = []string{args[0], strings.TrimPrefix(args[1], "compdef() { :; }; ")}
				}
				cmd := exec.Command(path, args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
					t.Errorf("%q: %v: %s", args, err, out)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
				t.Error("a text was run")
			}
		})
	}
	if err := Completion(&strings.Builder{}, nasty, "csh"); err == nil {
		t.Error("no error for a shell that isn't known")
	}

	var b strings.Builder
	if err := Man(&b, nasty, Section{"MORE", [][2]string{{"'x", ".y"}}}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		request, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".SS", ".TP", ".B", ".br"}, request) {
			t.Errorf("line %q is a command to the formatter", line)
		}
	}
	for _, want := range []string{
		`\&.it's a\eb: $(touch x), [y] "z" | # (default: \-\e) [PROG_A_B]`,
		"\\&.TH of it and 'more'", ".SS Some\n", "\n.SH MORE\n.TP\n\\fB\\&'x\\fR\n\\&.y\n", `"prog v1\-2"`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\nwant %s in it", b.String(), want)
		}
	}
}
