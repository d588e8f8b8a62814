package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// SECURITY.md names tests and flags that there are.
func TestSecurityDoc(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github/SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(source, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllSubmatch(text, -1)
	for _, m := range named {
		if !tests[string(m[1])] {
			t.Errorf("%s is no test", m[1])
		}
	}
	if len(named) < 20 {
		t.Errorf("%d tests named, so the file was not understood", len(named))
	}
	flags := make(map[string]bool)
	for _, o := range options(new(config)) {
		flags["--"+o.name] = true
	}
	for _, m := range regexp.MustCompile("`(--[a-z-]+[a-z])").FindAllSubmatch(text, -1) {
		if !flags[string(m[1])] {
			t.Errorf("%s is no flag", m[1])
		}
	}
}
