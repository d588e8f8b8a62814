package proxy

import "testing"

// TestTenantsAreVouchedFor: no header takes the name of a key, and no name means the
// same in two processes.
func TestTenantsAreVouchedFor(t *testing.T) {
	r, other := startRouter(t, testOptions("round_robin")), startRouter(t, testOptions("round_robin"))
	key := r.tenant(byKey, "alice")
	if key != r.tenant(byKey, "alice") {
		t.Error("one tenant is two")
	}
	for what, got := range map[string]uint64{
		"a header": r.tenant(byHeader, "alice"), "another name": r.tenant(byKey, "bob"), "another process": other.tenant(byKey, "alice"),
	} {
		if got == key {
			t.Errorf("%s is the tenant of the key", what)
		}
	}
}
