//go:build !race

package proxy

// chaosDefault is how many events a test run makes: fewer than under the race
// detector, which sees more in each.
const chaosDefault = 2_000
