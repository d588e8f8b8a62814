package file

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/actors/discovery"
	"loadstar/actors/workerurl"
)

var (
	whole = []actors.Role{actors.Regular}
	two   = []actors.Role{actors.Prefill, actors.Decode}
)

func TestParse(t *testing.T) {
	plain := func(url string) discovery.Worker { return discovery.Worker{URL: url, Priority: 50, Cost: 1} }
	full := discovery.Worker{
		URL: "http://b:2@3", Model: "m", Models: []string{"n", "o"}, Priority: 7, Cost: 0.5, Labels: map[string]string{"zone": "a", "n": "1"}, Bootstrap: 9000,
		Roles: actors.RolesOf(actors.Prefill, actors.Decode),
	}
	for _, c := range []struct {
		name  string
		text  string
		takes []actors.Role
		want  []discovery.Worker
	}{
		{"YAML", "# fleet\n- url: http://A:1/\n- url: \"https://b\"\n", whole, []discovery.Worker{plain("http://a:1"), plain("https://b:443")}},
		{"JSON with tabs", "[\n\t{\"url\": \"http://a:1\"},\n\t{\"url\":\"http://b:1\"}]", whole, []discovery.Worker{plain("http://a:1"), plain("http://b:1")}},
		{"below a key", "workers:\n  - url: http://a:1\n", whole, []discovery.Worker{plain("http://a:1")}},
		{"JSON below a key", `{"workers":[{"url":"http://a:1"}]}`, whole, []discovery.Worker{plain("http://a:1")}},
		{
			"all there is",
			"- {url: 'http://b:2@3', model_id: m, priority: 7, cost: 0.5, models: [n, o], worker_type: prefill+decode, bootstrap_port: 9000, labels: {zone: a, n: 1}}",
			two,
			[]discovery.Worker{full},
		},
		{"none", "[]", whole, nil},
		{"none below a key", "workers: []", whole, nil},
		{"an anchor", "- &a {url: http://a:1}\n", whole, []discovery.Worker{plain("http://a:1")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.text), c.takes)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

// Who would have whole requests served beside the phases is told how.
func TestRegularBesidePhases(t *testing.T) {
	const want = `line 1: worker_type "regular": this router takes prefill and decode workers, and regular ones only with --enable-igw`
	if _, err := Parse([]byte("- {url: http://a:1, worker_type: regular}"), two); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestKeys: a file takes what POST /workers takes.
func TestKeys(t *testing.T) {
	d := reflect.TypeFor[discovery.Description]()
	var want []string
	for i := range d.NumField() {
		want = append(want, d.Field(i).Tag.Get("json"))
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(keys)); !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}

func TestParseFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want string // of the error, its beginning
	}{
		{"empty", "", "it is empty: write []"},
		{"a comment alone", "# soon\n", "it is empty: write []"},
		{"no list", "url: http://a:1", "line 1: a list of workers is missing"},
		{"null", "workers:\n", "line 1: a list of workers is missing"},
		{"cut off", "- url: http://a:1\n- url: \"http://b", "line 2: found unexpected end of stream"},
		{"another document", "- url: http://a:1\n---\n- url: http://b:1\n", "line 2: another document begins: put all workers into one list"},
		{"another document that is no YAML", "- url: http://a:1\n---\n- url: \"http://b", "line 3: found unexpected end of stream"},
		{"cut off JSON", `[{"url":"http://a:1"},`, "line 1: did not find"},
		{"no worker", "- http://a:1", "line 1: no worker: write"},
		{"no url", "- url: http://a:1\n- cost: 2\n", "line 2: there is no url"},
		{"bad url", "- url: http://a:1\n\n- cost: 2\n  url: a\n", `line 3: "a" has no scheme`},
		{"unknown key", "- url: http://a:1\n  weight: 3\n", `line 1: the key "weight" is unknown: give some of url, model_id`},
		{"key twice", "- url: http://a:1\n  url: http://b:1\n", `line 1: unmarshal errors: line 2: mapping key "url" already defined at line 1`},
		{"wrong kind", "- url: http://a:1\n  cost: cheap\n", "line 1: unmarshal errors: line 2: cannot unmarshal !!str `cheap` into float64"},
		{"cost", "- {url: http://a:1, cost: -1}", "line 1: cost must be above 0"},
		{"cost that is none", "- {url: http://a:1, cost: .nan}", "line 1: cost must be above 0"},
		{"port", "- {url: http://a:1, bootstrap_port: 70000}", "line 1: bootstrap_port is no port"},
		{"long label", "- {url: http://a:1, labels: {a: " + strings.Repeat("x", 257) + "}}", "line 1: labels must be"},
		{"role", "- {url: http://a:1, worker_type: decode}", `line 1: worker_type "decode": this router takes regular workers`},
		{"twice", "- url: http://a:1\n- url: http://A:1/", "line 2: http://a:1 stands in line 1 already"},
		{"all at once", "- url: a\n- url: b\n", "line 1: \"a\" has no scheme: write it as http://HOST:PORT\nline 2: \"b\""},
		{"user info", "- url: http://u:secret@h", `line 1: "http://…@h" holds user info`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.text), whole)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want one that begins with %q", err, c.want)
			}
		})
	}
	many := strings.Repeat("- url: a\n", 1000)
	if _, err := Parse([]byte(many), whole); err == nil || !strings.HasSuffix(err.Error(), "and 990 more") {
		t.Errorf("of a thousand faults: %v, want some and how many more", err)
	}
	if _, err := Parse(make([]byte, MaxSize+1), whole); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a large file: %v, want it refused", err)
	}
}

// FuzzParse: what is taken is well-formed; and JSON that the standard library takes
// for descriptions means here what it means there.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"- url: http://a:1\n", `[{"url":"http://a:1","cost":2}]`, "workers: []", "- *a", "- {url: 'http://a:1@2', labels: {a: b}}", "&a [*a]", "{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		workers, err := Parse(text, two)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, w := range workers {
			if name, err := workerurl.Name(w.URL); err != nil || name != w.URL || seen[name] || w.Roles == 0 || !(w.Cost > 0) {
				t.Fatalf("%+v was taken: %v", w, err)
			}
			seen[w.URL] = true
		}
		var ds []discovery.Description
		if json.Unmarshal(text, &ds) != nil || strings.ContainsAny(string(text), `\`) {
			return
		}
		for i := range ds {
			if w, err := ds[i].Worker(two); err != nil || i >= len(workers) || fmt.Sprint(w) != fmt.Sprint(workers[i]) {
				t.Fatalf("as JSON %+v, %v, as YAML %+v", w, err, workers)
			}
		}
	})
}
