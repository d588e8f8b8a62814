package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite FLAGS.md")

// FLAGS.md is written from the flags themselves, so it can't be wrong for long.
func TestFlagsDoc(t *testing.T) {
	const file = "FLAGS.md"
	want := flagsDoc()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run go test -run TestFlagsDoc -update ./cmd/loadstar", file)
	}
}

func flagsDoc() string {
	var b strings.Builder
	b.WriteString(`# Flags

Written by ` + "`go test -run TestFlagsDoc -update ./cmd/loadstar`" + ` from the flags themselves; do not edit.

- A flag wins over its environment variable, and that over the default. An empty variable is absent.
- A list takes the values up to the next flag (` + "`--worker-urls URL1 URL2`" + `) and may be repeated. In the environment,
  spaces and commas separate. A scalar given twice takes the last value.
- A switch may be followed by true or false, bare or after an equals sign.
- A name may be cut short where that is unambiguous among vllm-router's own flags.
- Seconds may have a fraction.
- A variable that begins with tcp:// is absent: Kubernetes sets LOADSTAR_PORT so for a service called loadstar.
- Everything that is wrong is reported at once, a line each, and the exit code is 2.

The last column compares with vllm-router 0.1.17.
`)
	category := ""
	for _, o := range everyOption() {
		if o.category != category {
			category = o.category
			fmt.Fprintf(&b, "\n## %s\n\n| flag | environment | default | meaning | compared |\n|---|---|---|---|---|\n", strings.ToUpper(category[:1])+category[1:])
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n",
			strings.TrimSpace("--"+o.name+" "+o.arg), envName(o.name), docDefault(o), o.usage, docCompared(o))
	}
	b.WriteString("\n## Refused by name\n\n| flag | when | why, and what to do | values that are taken |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		r := refused[name]
		when := map[stage]string{later: "later", never: "never"}[r.when]
		shown := "`--" + strings.Replace(name, "=", " ", 1) + "`"
		if r.env != "" {
			shown += " and the variable `" + r.env + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", shown, when, r.sentence, strings.Join(r.harmless, ", "))
	}
	return b.String()
}

// everyOption is every flag of every command; those that the demo shares with the
// router are there once.
func everyOption() []*option {
	var all []*option
	for _, c := range commands {
		all = append(all, commandOptions(new(config), c.name)...)
	}
	return all
}

func docDefault(o *option) string {
	switch d := o.defaultText(); {
	case o.isSwitch():
		return "off"
	case d == "":
		return "none"
	default:
		return "`" + d + "`"
	}
}

func docCompared(o *option) string {
	switch {
	case o.from == ours:
		return "not there"
	case o.from == rust && o.differs != "":
		return "Rust front end only; " + o.differs
	case o.from == rust:
		return "Rust front end only"
	case o.differs != "":
		return o.differs
	default:
		return "same"
	}
}

// Flags of one category stand together, so that FLAGS.md has no heading twice; in lower
// case, since --help sorts them by bytes.
func TestCategories(t *testing.T) {
	seen, last := map[string]bool{}, ""
	for _, o := range everyOption() {
		if o.category != last && seen[o.category] {
			t.Errorf("--%s: category %q comes again behind %q", o.name, o.category, last)
		}
		if o.category != strings.ToLower(o.category[:1])+o.category[1:] {
			t.Errorf("--%s: category %q, want one in lower case", o.name, o.category)
		}
		seen[o.category], last = true, o.category
	}
}
