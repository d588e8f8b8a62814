package kubernetes

import (
	"slices"

	"loadstar/actors/discovery"

	"k8s.io/client-go/tools/cache"
)

// pods is the pods that are workers. It is where the reflector stores what it learns,
// and belongs to its goroutine.
type pods struct {
	opts   *Options
	source *discovery.Source
	at     map[string]discovery.Worker // by namespace and name
}

// Add implements cache.ReflectorStore, as all of the following do.
func (ps *pods) Add(obj any) error { return ps.Update(obj) }

// Update takes a pod as it is now.
func (ps *pods) Update(obj any) error {
	p, key, err := keyed(obj)
	if err != nil {
		return err
	}
	before, had := ps.at[key]
	now, ok := ps.opts.workerOf(p)
	switch {
	case ok:
		ps.at[key] = now
	case had:
		delete(ps.at, key)
	}
	ps.say(ok != had || ok && !same(&before, &now))
	return nil
}

// Delete takes a pod's end.
func (ps *pods) Delete(obj any) error {
	_, key, err := keyed(obj)
	if err != nil {
		return err
	}
	_, had := ps.at[key]
	delete(ps.at, key)
	ps.say(had)
	return nil
}

// Replace takes all pods that there are.
func (ps *pods) Replace(all []any, _ string) error {
	clear(ps.at)
	for _, obj := range all {
		p, key, err := keyed(obj)
		if err != nil {
			return err
		}
		if w, ok := ps.opts.workerOf(p); ok {
			ps.at[key] = w
		}
	}
	ps.say(true)
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore: nothing has happened.
func (ps *pods) Bookmark(string) error {
	ps.source.Alive()
	return nil
}

// Resync has nothing to do.
func (ps *pods) Resync() error { return nil }

// say says all workers if there is news, in the order of their pods' names.
func (ps *pods) say(news bool) {
	if !news {
		ps.source.Alive()
		return
	}
	keys := make([]string, 0, len(ps.at))
	for key := range ps.at {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	workers := make([]discovery.Worker, len(keys))
	for i, key := range keys {
		workers[i] = ps.at[key]
	}
	ps.source.Say(workers)
}

// same reports whether two states of a pod make the same worker. Labels go by the
// pod's name, which is its key.
func same(a, b *discovery.Worker) bool {
	return a.URL == b.URL && a.Process == b.Process && a.Bootstrap == b.Bootstrap
}

func keyed(obj any) (*pod, string, error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	p, _ := obj.(*pod)
	return p, key, err
}
