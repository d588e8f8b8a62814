package main

import (
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	words := newVocabulary(options(new(config)))
	for name, r := range refused {
		t.Run(name, func(t *testing.T) {
			if len(r.sentence) < 10 || strings.HasSuffix(r.sentence, ".") || strings.Contains(r.sentence, "\n") {
				t.Errorf("sentence %q, want one that can follow a colon", r.sentence)
			}
			if flag, _, single := strings.Cut(name, "="); single {
				if words.options[flag] == nil {
					t.Errorf("a value of --%s is refused, want a flag that is taken", flag)
				}
				return
			}
			if words.options[name] != nil {
				t.Errorf("--%s is both taken and refused", name)
			}
			for _, h := range r.harmless {
				if err := r.refuse("--"+name, []string{h}); err != nil {
					t.Errorf("%q: %v, want it taken", h, err)
				}
			}
			for _, values := range [][]string{nil, {"anything"}, {"100", "100"}, {""}} {
				line := normaliseRouter(append([]string{"--" + name}, values...)...)
				if len(line.faults) != 1 || !strings.HasPrefix(line.faults[0].Error(), "--"+name+" is not") {
					t.Errorf("with %q: faults %v, want one that names the flag", values, line.faults)
				}
			}
		})
	}
}

func TestRefusedStages(t *testing.T) {
	for _, c := range []struct {
		stage stage
		want  string
	}{
		{later, "--x is not in this version: why"},
		{never, "--x is not supported: why"},
	} {
		if got := (refusal{when: c.stage, sentence: "why"}).error("--x").Error(); got != c.want {
			t.Errorf("message %q, want %q", got, c.want)
		}
	}
}
