package proxy

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"loadstar/actors"

	"github.com/VictoriaMetrics/metrics"
)

// modelsLabelled is the number of models with series of their own. Names are the
// workers' to choose, and each is a new label.
const modelsLabelled = 256

// writeModels writes what the registry knows of models. Those of a model end with
// the last worker that serves it; beyond modelsLabelled the first by name have some.
func (m *metricSet) writeModels(w io.Writer) {
	all, err := m.p.router.Models(m.p.now())
	if err != nil {
		return
	}
	metrics.WriteGaugeUint64(w, "loadstar_models", uint64(len(all)))
	slices.SortFunc(all, func(a, b actors.ModelView) int { return cmp.Compare(a.Name, b.Name) })
	for _, v := range all[:min(len(all), modelsLabelled)] {
		label := modelLabel(v.Name)
		metrics.WriteGaugeUint64(w, "loadstar_model_workers"+label, uint64(v.Usable))
		metrics.WriteCounterUint64(w, "loadstar_model_requests_total"+label, v.Granted)
	}
}

// modelLabel is the label of a model, whose name workers and clients choose. The format
// knows these three escapes and no others, where Go's %q writes more.
func modelLabel(name string) string {
	return `{model="` + labelEscapes.Replace(name) + `"}`
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
