package discovery

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// fleet is a fleet that keeps the rules and notes who called.
type fleet struct {
	mu     sync.Mutex
	has    map[string]Worker // those that get requests
	hand   map[string]bool   // those that were added by hand
	calls  []string
	refuse map[string]error // by URL
}

func newFleet() *fleet {
	return &fleet{has: make(map[string]Worker), hand: make(map[string]bool), refuse: make(map[string]error)}
}

func (f *fleet) Bring(w Worker) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "bring "+w.URL)
	switch {
	case f.refuse[w.URL] != nil:
		return f.refuse[w.URL]
	case f.hand[w.URL]:
		return ErrTaken
	}
	f.has[w.URL] = w
	return nil
}

func (f *fleet) Drain(w Worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "drain "+w.URL)
	delete(f.has, w.URL)
}

// set changes the fleet from outside.
func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// shown is the workers with their sources and models, and then what was called since
// the last time.
func (f *fleet) shown() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, url := range slices.Sorted(maps.Keys(f.has)) {
		w := f.has[url]
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s=%s/%s", url, w.Source, w.Model), "/"))
	}
	text := strings.Join(all, " ") + " | " + strings.Join(f.calls, ", ")
	f.calls = nil
	return strings.TrimSpace(text)
}

// rig is a Reconciler in a bubble.
type rig struct {
	*Reconciler
	t     *testing.T
	fleet *fleet
	log   *bytes.Buffer
}

func bubble(t *testing.T, o Options, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, fleet: newFleet(), log: new(bytes.Buffer)}
		o.Log = slog.New(slog.NewTextHandler(r.log, nil))
		r.Reconciler = New(r.fleet, o)
		defer r.Close()
		f(r)
	})
}

// want compares what the fleet has, and what it was told since the last time.
func (r *rig) want(when, want string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.fleet.shown(); got != want {
		r.t.Errorf("%s: %q, want %q", when, got, want)
	}
}

// wantLogged compares how many lines hold a text.
func (r *rig) wantLogged(text string, want int) {
	r.t.Helper()
	synctest.Wait()
	if got := strings.Count(r.log.String(), text); got != want {
		r.t.Errorf("%d lines of log hold %q, want %d:\n%s", got, text, want, r.log)
	}
}

// named is workers of these names, each NAME or NAME/MODEL.
func named(names ...string) []Worker {
	all := make([]Worker, len(names))
	for i, n := range names {
		url, model, _ := strings.Cut(n, "/")
		all[i] = Worker{URL: url, Model: model}
	}
	return all
}
