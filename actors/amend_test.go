package actors

import (
	"errors"
	"maps"
	"testing"
)

// What is said of a worker changes; its health, its requests and who it is stay.
func TestAmend(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	acquireN(t, r, 4) // two at each
	if l, err := r.Acquire(&Request{Role: Decode}); err == nil {
		t.Fatalf("a decode request went to %s, and nobody decodes", l.URL)
	}
	before := view(t, r, base(0))
	labels := map[string]string{"zone": "a"}
	err := r.Amend([]Spec{{
		URL: base(0), Base: "another", Rank: 7, Roles: RolesOf(Decode), Model: "m", Priority: 3, Cost: 2.5, Labels: labels, Source: "file", Process: "p", Handle: "another",
	}})
	if err != nil {
		t.Fatal(err)
	}
	v := view(t, r, base(0))
	if v.Roles != RolesOf(Decode) || v.Model != "m" || v.Priority != 3 || v.Cost != 2.5 || !maps.Equal(v.Labels, labels) || v.Source != "file" || v.Process != "p" {
		t.Errorf("amended worker is %+v, want all that was said", v.Spec)
	}
	if v.ID != before.ID || v.Base != before.Base || v.Rank != before.Rank || v.Handle != before.Handle || !v.Healthy || v.Load != 2 {
		t.Errorf("amended worker is %+v, healthy %v, load %d, want it as before, healthy, load 2", v.Spec, v.Healthy, v.Load)
	}
	for range 4 {
		if l := acquire(t, r, Request{}); l.URL != base(1) {
			t.Fatalf("a whole request went to %s, which only decodes", l.URL)
		}
	}
	if l := acquire(t, r, Request{Role: Decode, Model: []byte("m")}); l.URL != base(0) {
		t.Errorf("a request went to %s, want %s", l.URL, base(0))
	}

	// Back, with nothing said: it serves everything. Nobody serves the model then.
	if err := r.Amend([]Spec{{URL: base(0)}}); err != nil {
		t.Fatal(err)
	}
	if v := view(t, r, base(0)); v.Roles != RolesOf(Regular) || v.Model != AnyModel || v.Cost != 1 || v.Labels != nil {
		t.Errorf("amended worker is %+v, want the defaults", v.Spec)
	}
	onLoop(t, r, func(s *state) {
		if len(s.catalog.byName) != 0 {
			t.Errorf("models %v, want none", s.catalog.byName)
		}
	})
}

// All or none: with one that is no member nothing changes.
func TestAmendRefused(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	for _, c := range []struct {
		name  string
		specs []Spec
	}{
		{"unknown", []Spec{{URL: base(0), Model: "m"}, {URL: "http://nobody:1"}}},
		{"unknown role", []Spec{{URL: base(0), Model: "m"}, {URL: base(1), Roles: 1 << numRoles}}},
		{"removed before", []Spec{{URL: base(0), Model: "m"}, {URL: base(1)}}},
	} {
		if c.name == "removed before" {
			remove(t, r, base(1))
		}
		err := r.Amend(c.specs)
		if err == nil || c.name != "unknown role" && !errors.Is(err, ErrUnknownWorker) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if v := view(t, r, base(0)); v.Model != AnyModel {
			t.Errorf("%s: the other one has model %s, want it as it was", c.name, v.Model)
		}
	}
}
