package main

import (
	"errors"
	"time"
)

// admissionConfig is how much is served at a time, and how the rest waits. Zero
// limits nothing.
type admissionConfig struct {
	MaxConcurrent int     // requests, over the whole router
	MaxInflight   int     // requests at a worker, or at a rank of one
	RatePerSecond float64 // requests that are admitted

	QueueSize    int // requests that wait; 0 has none wait
	QueueTimeout time.Duration
	QueueAgeing  time.Duration // the wait that counts like one class more

	// The headers, in lower case, that say a request's class and tenant. Empty is
	// none.
	PriorityHeader string
	TenantHeader   string

	Deadline time.Duration // of a request that brings none; zero is none
}

// waits reports whether a request may ever have to wait.
func (a admissionConfig) waits() bool {
	return a.QueueSize > 0 && (a.MaxConcurrent > 0 || a.MaxInflight > 0 || a.RatePerSecond > 0)
}

// checkAdmission is check for limits and the queue. A queue without a limit is
// none of the contradictions: it has a default, and vllm-router's limits have
// one too.
func (c config) checkAdmission() []error {
	var faults []error
	a := &c.Admission
	if a.PriorityHeader != "" && !a.waits() {
		faults = append(faults, errors.New("--priority-header is about requests that wait, and none ever does: give a limit "+
			"(--max-concurrent-requests, --max-worker-inflight or --rate-limit-tokens-per-second) and a --queue-size above 0, or leave it out"))
	}
	if a.PriorityHeader != "" && a.PriorityHeader == a.TenantHeader {
		faults = append(faults, errors.New("--priority-header and --tenant-header name the same header: give two"))
	}
	return faults
}
