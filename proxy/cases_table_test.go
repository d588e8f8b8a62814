package proxy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// caseRanges are the numbers of the cases; those between are not in use.
const caseRanges = "5-6 9 11-13 15-20 22-25 28 30 32-35 37-40 42-61 63-64 66 69-70 73 75 78-81 83-88 90-91 93-99 102 104-109 111-113 116-125 128-130 132-133"

const (
	numCases     = 97
	longestKind  = 12 // words
	casesFile    = "CASES.md"
	casesPackage = "proxy" // of tests whose package isn't named
)

// testsOfModule are the tests, benchmarks and fuzz targets of all packages, as
// folder.Name.
func testsOfModule(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				all = append(all, filepath.ToSlash(dir)+"."+fn.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	caseRow      = regexp.MustCompile(`^\| B(\d{2,3}) \| (.*) \| (.*) \|$`)
	caseTest     = regexp.MustCompile("`(?:([a-z/]+)\\.)?((?:Test|Fuzz|Benchmark)\\w*)`")
	caseReason   = regexp.MustCompile(`^(Issue|Does not apply)\b`)
	namedForCase = regexp.MustCompile(`\.(?:Test|Benchmark)(?:Case)?B(\d{2,3})(?:And(\d{2,3}))?[A-Z]`)
)

// casesTable reads the table: the tests that each case names, as folder.Name. It
// reports what is wrong with a row by itself.
func casesTable(t *testing.T, text string) map[int][]string {
	t.Helper()
	rows, last := map[int][]string{}, 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		m := caseRow.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(line, "| B") {
				t.Errorf("no row of a case: %s", line)
			}
			continue
		}
		id, _ := strconv.Atoi(m[1])
		if id <= last {
			t.Errorf("B%02d stands behind B%02d", id, last)
		}
		last = id
		if words := len(strings.Fields(m[2])); words == 0 || words > longestKind {
			t.Errorf("B%02d is described in %d words, want 1 to %d", id, words, longestKind)
		}
		var tests []string
		for _, name := range caseTest.FindAllStringSubmatch(m[3], -1) {
			if name[1] == "" {
				name[1] = casesPackage
			}
			tests = append(tests, name[1]+"."+name[2])
		}
		if len(tests) == 0 && !caseReason.MatchString(m[3]) {
			t.Errorf("B%02d names neither a test nor a reason: %s", id, m[3])
		}
		rows[id] = tests
	}
	return rows
}

// TestCasesTable: the table has every case once, and names tests that exist, among
// them all that are named for a case.
func TestCasesTable(t *testing.T) {
	text, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	rows, tests := casesTable(t, string(text)), testsOfModule(t, "..")
	known := map[int]bool{}
	for r := range strings.FieldsSeq(caseRanges) {
		from, to, ok := strings.Cut(r, "-")
		if !ok {
			to = from
		}
		first, _ := strconv.Atoi(from)
		last, _ := strconv.Atoi(to)
		for id := first; id <= last; id++ {
			known[id] = true
			if _, ok := rows[id]; !ok {
				t.Errorf("B%02d is missing", id)
			}
		}
	}
	if len(known) != numCases {
		t.Errorf("the ranges hold %d cases, want %d", len(known), numCases)
	}
	for id, named := range rows {
		if !known[id] {
			t.Errorf("there is no case B%02d", id)
		}
		for _, name := range named {
			if !slices.Contains(tests, name) {
				t.Errorf("B%02d names %s, which does not exist", id, name)
			}
		}
	}
	for _, name := range tests {
		m := namedForCase.FindStringSubmatch(name)
		for i := 1; i < len(m) && m[i] != ""; i++ {
			if id, _ := strconv.Atoi(m[i]); !slices.Contains(rows[id], name) {
				t.Errorf("%s is not in the row of %s", name, fmt.Sprintf("B%02d", id))
			}
		}
	}
}
