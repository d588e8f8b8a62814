package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"loadstar/bench/compare"
	"loadstar/bench/routing"
	"loadstar/bench/scale"
	"loadstar/bench/sim"
)

// Files writes the pages and the charts of all raw results in a directory beside
// them, and returns the pages' names. Other files there are left alone.
func Files(dir string) ([]string, error) {
	raw, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var pages []string
	for _, file := range raw {
		text, err := os.ReadFile(file)
		if err != nil {
			return pages, err
		}
		base := strings.TrimSuffix(file, ".json")
		var page bytes.Buffer
		known, err := write(&page, text, func(name, svg string) (string, error) {
			chart := base + "-" + name + ".svg"
			return filepath.Base(chart), os.WriteFile(chart, []byte(svg), 0o644)
		})
		if err != nil {
			return pages, fmt.Errorf("%s: %w", file, err)
		}
		if !known {
			continue
		}
		if err := os.WriteFile(base+".md", page.Bytes(), 0o644); err != nil {
			return pages, err
		}
		pages = append(pages, base+".md")
	}
	return pages, nil
}

// write makes the page of a raw result, and reports whether it is of a kind that
// has one.
func write(out io.Writer, text []byte, chart func(name, svg string) (link string, err error)) (known bool, err error) {
	var kind struct{ Kind string }
	if json.Unmarshal(text, &kind) != nil {
		return false, nil
	}
	switch kind.Kind {
	case compare.Kind:
		var r compare.Result
		if err := json.Unmarshal(text, &r); err != nil {
			return false, fmt.Errorf("it is no comparison: %w", err)
		}
		return true, Compare(out, &r, chart)
	case sim.Kind:
		var r sim.Result
		if err := json.Unmarshal(text, &r); err != nil {
			return false, fmt.Errorf("it is no simulation: %w", err)
		}
		return true, Sim(out, &r, chart)
	case scale.Kind:
		var r scale.Result
		if err := json.Unmarshal(text, &r); err != nil {
			return false, fmt.Errorf("it is no measurement of scale: %w", err)
		}
		return true, Scale(out, &r)
	case routing.Kind:
		var r routing.Result
		if err := json.Unmarshal(text, &r); err != nil {
			return false, fmt.Errorf("it is no measurement of routing: %w", err)
		}
		return true, Routing(out, &r, chart)
	}
	return false, nil
}
