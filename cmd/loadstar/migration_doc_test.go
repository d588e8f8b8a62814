package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// MIGRATION.md's table of vllm-router's flags is written from the flags themselves.
func TestMigrationFlags(t *testing.T) {
	const begin, end = "-update ./cmd/loadstar; do not edit. -->\n", "<!-- end -->\n"
	text := docText(t, migrationDoc)
	head, rest, found := strings.Cut(text, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("no place for the table")
	}
	want := head + begin + migrationFlags() + end + tail
	if *update {
		if err := os.WriteFile(migrationDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		text = want
	}
	if text != want {
		t.Errorf("%s is stale: run go test -run TestMigrationFlags -update ./cmd/loadstar", migrationDoc)
	}
}

// migrationFlags says of each of vllm-router's flags how it is taken.
func migrationFlags() string {
	words := newVocabulary(options(new(config)))
	var same, differ []string
	for _, f := range referenceFlags {
		shown := "`--" + f.name + "`"
		name, err := words.resolve("--" + f.name)
		o := words.options[name]
		switch {
		case f.name == helpFlag || f.name == versionFlag:
			same = append(same, shown)
		case err != nil || o == nil:
			r, known := refused[f.name]
			if !known {
				panic(shown + " is neither taken nor refused")
			}
			row := fmt.Sprintf("| %s | refused: %s |", shown, r.sentence)
			if len(r.harmless) > 0 {
				row = fmt.Sprintf("| %s | refused, but for %s: %s |", shown, strings.Join(r.harmless, ", "), r.sentence)
			}
			differ = append(differ, row)
		case o.differs != "":
			differ = append(differ, fmt.Sprintf("| %s | %s |", shown, o.differs))
		default:
			same = append(same, shown)
		}
	}
	return "\nThe same: " + strings.Join(same, ", ") + ".\n\n| the rest | here and there |\n|---|---|\n" + strings.Join(differ, "\n") + "\n\n"
}
