package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"loadstar/actors"
)

// modelsConfig is how requests find the workers of their model.
type modelsConfig struct {
	Ask     bool              // workers which models they serve
	Aliases map[string]string // models by their other names; nil is none
}

// maxAliases is how many other names of models there may be.
const maxAliases = 1024

// modelOptions is several models behind one router.
func modelOptions(m *modelsConfig) []*option {
	const category = "workers"
	return []*option{
		{
			name: "enable-igw", category: category,
			usage: "ask workers by GET /v1/models which models and LoRA adapters they serve, send a request to those that serve its model, " +
				"and answer 404 when nobody does; without it, only POST /workers says what a worker serves; " +
				"workers of whole requests may then stand beside prefill and decode workers",
			differs: "an unknown model goes anywhere there, and the admin API's answers are the same with and without it here",
			one:     readSwitch(&m.Ask),
		},
		{
			name: "model-alias", arg: "ALIAS=MODEL ...", category: category, from: ours, needs: "ALIAS=MODEL",
			usage: "serve MODEL under the name ALIAS too: a request's model is rewritten, the answer's is the worker's own",
			many:  modelAliases(&m.Aliases),
		},
	}
}

// modelAliases reads other names of models.
func modelAliases(dst *map[string]string) func([]string) []error {
	return func(values []string) []error {
		all := make(map[string]string, len(values))
		var faults []error
		for _, v := range values {
			alias, model, ok := strings.Cut(v, "=")
			known, again := all[alias]
			switch {
			case !ok || !isModelName(alias) || !isModelName(model):
				faults = append(faults, fmt.Errorf("%q is not ALIAS=MODEL: give two names of at most %d bytes, joined by an equals sign", v, actors.MaxModelName))
			case alias == model:
				faults = append(faults, fmt.Errorf("%q makes a model its own alias: leave it out", v))
			case again && known != model:
				faults = append(faults, fmt.Errorf("%q is a second meaning of %q beside %q: leave one out", v, alias, known))
			default:
				all[alias] = model
			}
		}
		for _, alias := range slices.Sorted(maps.Keys(all)) {
			model := all[alias]
			if to, ok := all[model]; ok {
				faults = append(faults, fmt.Errorf("%q stands for %q, which is an alias itself: write %s=%s", alias, model, alias, to))
			}
		}
		if len(all) > maxAliases {
			faults = append(faults, fmt.Errorf("there are %d aliases: give at most %d", len(all), maxAliases))
		}
		*dst = all
		return faults
	}
}

// isModelName reports whether text can be the name of a model.
func isModelName(s string) bool {
	return s != "" && len(s) <= actors.MaxModelName && strings.ToValidUTF8(s, "") == s && !strings.ContainsFunc(s, unicode.IsControl)
}
