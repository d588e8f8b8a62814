package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
)

func TestModelFlags(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		ask        bool
		want       map[string]string
		faults     []string // a part of each
	}{
		{"none", "", false, nil, nil},
		{"asked", "--enable-igw", true, nil, nil},
		{"aliases", "--model-alias a=org/m b=org/m --model-alias c=x=y", false, map[string]string{"a": "org/m", "b": "org/m", "c": "x=y"}, nil},
		{"the same again", "--model-alias a=m a=m", false, map[string]string{"a": "m"}, nil},
		{"no names", "--model-alias a a= =m", false, nil, []string{`"a" is not ALIAS=MODEL`, `"a=" is not`, `"=m" is not`}},
		{"a long name", "--model-alias a=" + strings.Repeat("x", 257), false, nil, []string{"at most 256 bytes"}},
		{"two meanings", "--model-alias a=m a=n", false, nil, []string{`beside "m"`}},
		{"its own", "--model-alias a=a", false, nil, []string{"its own alias"}},
		{"a chain", "--model-alias a=b b=c", false, nil, []string{"write a=c"}},
		{"none named", "--model-alias", false, nil, []string{"needs at least one ALIAS=MODEL"}},
		{"too many", "--model-alias" + manyAliases(maxAliases+1), false, nil, []string{"at most 1024"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := parse(strings.Fields(tc.line), nil)
			var faults usageError
			if errors.As(err, &faults); len(faults) != len(tc.faults) {
				t.Fatalf("faults %v, want %d", faults, len(tc.faults))
			}
			for i, want := range tc.faults {
				if got := faults[i].Error(); !strings.HasPrefix(got, "--model-alias") || !strings.Contains(got, want) {
					t.Errorf("fault %q, want %q in it", got, want)
				}
			}
			if len(faults) == 0 && (c.Models.Ask != tc.ask || !maps.Equal(c.Models.Aliases, tc.want)) {
				t.Errorf("settings %+v, want %v and %v", c.Models, tc.ask, tc.want)
			}
		})
	}
}

func manyAliases(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " a%d=m", i)
	}
	return b.String()
}

// TestModelsOfSimulatedWorkers runs the whole: workers are asked, an alias has its
// model's workers, and what nobody serves is refused.
func TestModelsOfSimulatedWorkers(t *testing.T) {
	_, urls := simulated(t, 2)
	addr := running(t, io.Discard, "--enable-igw", "--model-alias", "other=sim", "--worker-urls", urls[0], urls[1])
	waitFleet(t, addr, "two healthy workers", fleetView.healthy)
	for model, want := range map[string]int{"sim": 200, "other": 200, "nobody's": 404} {
		resp, end := chat(t, addr, fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`, model))
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", model, resp.StatusCode, want)
		}
		end()
	}
}
