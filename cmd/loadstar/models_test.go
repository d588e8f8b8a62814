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

// TestRegularWorkersBesidePhases: a model of both kinds of workers is served in two
// phases, and whole once a phase has nobody.
func TestRegularWorkersBesidePhases(t *testing.T) {
	workers, urls := simulated(t, 3)
	addr := running(t, io.Discard, "--enable-igw", "--vllm-pd-disaggregation", "--prefill", urls[0], "--decode", urls[1], "--worker-urls", urls[2],
		"--worker-startup-check-interval", "0.05")
	waitFleet(t, addr, "three healthy workers", fleetView.healthy)
	waitFleet(t, addr, "workers of all kinds", func(v fleetView) bool {
		return maps.Equal(v.types(), map[string]string{urls[0]: "prefill", urls[1]: "decode", urls[2]: "regular"})
	})
	body := `{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`
	answer(t, addr, body)
	seen := func() (all [3]int64) {
		for i, w := range workers {
			all[i] = w.Stats().Entered
		}
		return all
	}
	if got := seen(); got != [3]int64{1, 1, 0} {
		t.Errorf("the workers have seen %v requests, want 1, 1 and 0", got)
	}
	workers[1].Close()
	answer(t, addr, body)
	if got := seen()[2]; got != 1 {
		t.Errorf("the regular worker has seen %d requests, want 1", got)
	}
}
