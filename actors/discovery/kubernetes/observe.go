package kubernetes

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
)

// observedWatch is a watch whose events are looked at on their way. (watch.Filter would
// leave a goroutine behind whenever its reader stops first.)
type observedWatch struct {
	inner  watch.Interface
	events chan watch.Event
	cancel context.CancelFunc // ends pass
}

// ResultChan implements watch.Interface.
func (w *observedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface. It may be called again.
func (w *observedWatch) Stop() {
	w.cancel()
	w.inner.Stop()
}

// pass passes events on until there are no more or ctx ends.
func (w *observedWatch) pass(ctx context.Context, look func(watch.Event)) {
	defer close(w.events)
	defer w.Stop()
	for e := range w.inner.ResultChan() {
		look(e)
		select {
		case w.events <- e:
		case <-ctx.Done():
			return
		}
	}
}
