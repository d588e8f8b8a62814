//go:build race

package proxy

// chaosDefault is how many events a test run makes.
const chaosDefault = 6_000
