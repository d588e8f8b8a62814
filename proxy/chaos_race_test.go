//go:build race

package proxy

// chaosDefault is how many events a test run makes.
const chaosDefault = 10_000
