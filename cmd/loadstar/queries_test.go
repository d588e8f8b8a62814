package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"go.yaml.in/yaml/v3"
)

// alertFile is what is read of a file of rules.
type alertFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// panel is what is read of a panel of a dashboard.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ Expr string }
}

// exported is what routers serve: of each metric its labels, and of each label its
// values.
type exported map[string]map[string]map[string]bool

// scraped are the labels that whoever scrapes adds.
var scraped = []string{"job", "instance"}

func exportedOf(text string) exported {
	all := exported{}
	pair := regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	for _, l := range strings.Split(text, "\n") {
		series, _, _ := strings.Cut(l, " ")
		name, set, _ := strings.Cut(series, "{")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if all[name] == nil {
			all[name] = map[string]map[string]bool{}
		}
		for _, m := range pair.FindAllStringSubmatch(set, -1) {
			if all[name][m[1]] == nil {
				all[name][m[1]] = map[string]bool{}
			}
			all[name][m[1]][m[2]] = true
		}
	}
	return all
}

// faultsIn lists what a query names that routers don't serve.
func (x exported) faultsIn(query string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	e, err := metricsql.Parse(query)
	if err != nil {
		return []string{err.Error()}
	}
	labels := map[string]bool{} // of all metrics in the query
	var grouped []string
	selectors := 0
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		switch e := e.(type) {
		case *metricsql.AggrFuncExpr:
			grouped = append(grouped, e.Modifier.Args...)
		case *metricsql.BinaryOpExpr:
			grouped = append(append(grouped, e.GroupModifier.Args...), e.JoinModifier.Args...)
		case *metricsql.MetricExpr:
			for _, filters := range e.LabelFilterss {
				selectors++
				name := ""
				for _, f := range filters {
					if f.Label == "__name__" {
						name = f.Value
					}
				}
				known, ok := x[name]
				if !ok {
					fault("no metric %q", name)
					continue
				}
				for l := range known {
					labels[l] = true
				}
				for _, f := range filters {
					if f.Label == "__name__" || slices.Contains(scraped, f.Label) {
						continue
					}
					matches := func(v string) bool { return v == f.Value }
					if f.IsRegexp {
						matches = regexp.MustCompile("^(?:" + f.Value + ")$").MatchString
					}
					switch {
					case known[f.Label] == nil:
						fault("%s has no label %q", name, f.Label)
					case !slices.ContainsFunc(slices.Collect(maps.Keys(known[f.Label])), matches):
						fault("%s has no %s that is %q", name, f.Label, f.Value)
					}
				}
			}
		}
	})
	if selectors == 0 {
		fault("it selects nothing")
	}
	for _, l := range grouped {
		// A histogram has one of these, as the operator chose.
		if l != "le" && l != "vmrange" && !labels[l] && !slices.Contains(scraped, l) {
			fault("none of its metrics has a label %q", l)
		}
	}
	return faults
}

// TestQueryCheck: the check finds what it is for.
func TestQueryCheck(t *testing.T) {
	x := exportedOf("a_total{path=\"/x\",b=\"1\"} 1\n# TYPE a gauge\na_total{path=\"/y\",b=\"2\"} 1\nb 2\n")
	for query, want := range map[string]string{
		`sum by (path) (rate(a_total{b="1", job=~"$job"}[5m])) / b`: "",
		`sum by (instance) (a_total{path=~"/[xyz]"})`:               "",
		`a`:                       `no metric "a"`,
		`a_total{c="1"}`:          `a_total has no label "c"`,
		`a_total{b="3"}`:          `a_total has no b that is "3"`,
		`a_total{b=~"3.*"}`:       `a_total has no b that is "3.*"`,
		`sum by (c) (a_total)`:    `none of its metrics has a label "c"`,
		`b * on (c) a_total`:      `none of its metrics has a label "c"`,
		`sum(a_total`:             `unexpected token`,
		`1 > 0`:                   `it selects nothing`,
		`{job="x"}`:               `no metric ""`,
		`a_total{b="1" or c="2"}`: `a_total has no label "c"`,
	} {
		got := strings.Join(x.faultsIn(query), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestAlertsAndDashboard: every query can be read, and names only what a router
// serves. Every alert says what is wrong and what to do, and the flags that it names
// are flags; no panel lies over another.
func TestAlertsAndDashboard(t *testing.T) {
	x := exportedOf(everyMetric(t))
	known := map[string]bool{}
	for _, o := range options(new(config)) {
		known["--"+o.name] = true
	}

	text, err := os.ReadFile("packaging/alerts/loadstar.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules alertFile
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			for _, f := range x.faultsIn(r.Expr) {
				t.Errorf("alert %s: %s", r.Alert, f)
			}
			if names[r.Alert] || r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["runbook"] == "" {
				t.Errorf("alert %q of group %s is there twice, or lacks a name, a severity, a summary or a runbook", r.Alert, g.Name)
			}
			names[r.Alert] = true
			for _, flag := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(r.Annotations["runbook"], -1) {
				if !known[flag] {
					t.Errorf("alert %s: %s is no flag", r.Alert, flag)
				}
			}
			for _, m := range regexp.MustCompile(`[a-z]+_[a-z_]+_(?:total|seconds)`).FindAllString(r.Annotations["runbook"], -1) {
				if x[m] == nil {
					t.Errorf("alert %s: %s is no metric", r.Alert, m)
				}
			}
		}
	}
	if len(names) < 9 {
		t.Errorf("%d alerts, so the file was not understood", len(names))
	}

	text, err = os.ReadFile("packaging/grafana/loadstar.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID, Title string
		Panels     []panel
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	place, ids, queries := map[[2]int]string{}, map[int]bool{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q has no title, the number of another, or a place off the board", p.Title)
		}
		ids[p.ID] = true
		for dx := range p.GridPos.W {
			for dy := range p.GridPos.H {
				at := [2]int{p.GridPos.X + dx, p.GridPos.Y + dy}
				if place[at] != "" {
					t.Fatalf("panel %q lies over %q", p.Title, place[at])
				}
				place[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			queries++
			for _, f := range x.faultsIn(strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(target.Expr)) {
				t.Errorf("panel %q: %s", p.Title, f)
			}
		}
	}
	if board.UID == "" || board.Title == "" || queries < 30 {
		t.Errorf("%d queries, so the file was not understood", queries)
	}
	for _, v := range board.Templating.List {
		q, _ := v.Query.(map[string]any)
		text, ok := q["query"].(string)
		if !ok {
			continue
		}
		m := regexp.MustCompile(`^label_values\((.+), \w+\)$`).FindStringSubmatch(text)
		if m == nil {
			t.Errorf("variable %s: %q, want label_values of a metric", v.Name, text)
			continue
		}
		for _, f := range x.faultsIn(m[1]) {
			t.Errorf("variable %s: %s", v.Name, f)
		}
	}
}
