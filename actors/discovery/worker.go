package discovery

import (
	"maps"
	"slices"

	"loadstar/actors"
)

// DefaultPriority is what vllm-router reports of a worker that was given none.
const DefaultPriority = 50

// Worker is a worker as a source knows it.
type Worker struct {
	URL       string   // canonical; may end in @ and a data-parallel rank, which then is the only one
	Model     string   // empty for any
	Models    []string // that it serves beside; never changed once it was said
	Roles     actors.Roles
	Priority  int
	Cost      float64
	Labels    map[string]string // never changed once it was said
	Bootstrap int               // port of its Mooncake bootstrap server; 0 for none

	Process string // tells a process from the next one at this URL; empty if the source can't
	Source  string // name of the source; the Reconciler's
}

// same reports whether there is nothing to tell the fleet.
func (w *Worker) same(o *Worker) bool {
	return w.URL == o.URL && w.Model == o.Model && w.Roles == o.Roles && w.Priority == o.Priority && w.Cost == o.Cost &&
		w.Bootstrap == o.Bootstrap && w.Process == o.Process && w.Source == o.Source && maps.Equal(w.Labels, o.Labels) && slices.Equal(w.Models, o.Models)
}
