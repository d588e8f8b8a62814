package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"loadstar/bench/compare"
)

// Files writes the page and the charts of every comparison in a directory beside
// its raw results, and returns the pages' names. Other files there are left alone.
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
		var kind struct{ Kind string }
		if json.Unmarshal(text, &kind) != nil || kind.Kind != compare.Kind {
			continue
		}
		var r compare.Result
		if err := json.Unmarshal(text, &r); err != nil {
			return pages, fmt.Errorf("%s is no comparison: %w", file, err)
		}
		base := strings.TrimSuffix(file, ".json")
		var page bytes.Buffer
		err = Compare(&page, &r, func(name, svg string) (string, error) {
			chart := base + "-" + name + ".svg"
			return filepath.Base(chart), os.WriteFile(chart, []byte(svg), 0o644)
		})
		if err != nil {
			return pages, err
		}
		if err := os.WriteFile(base+".md", page.Bytes(), 0o644); err != nil {
			return pages, err
		}
		pages = append(pages, base+".md")
	}
	return pages, nil
}
