package actors

import (
	"testing"
)

// startRouter returns a router without workers that ends with the test.
func startRouter(t testing.TB, policyName string, treeBytes int) *Router {
	t.Helper()
	r, err := NewRouter(RouterOptions{Options: options(policyName), TreeBytes: treeBytes})
	if err != nil {
		t.Fatalf("NewRouter: %v", err)
	}
	t.Cleanup(func() { r.Halt() }) // with leases live, if the test wants it so
	return r
}
