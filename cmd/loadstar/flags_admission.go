package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The bounds of --queue-size and --rate-limit-tokens-per-second, which are those
// of the waiting room.
const (
	maxQueueSize = 1 << 16
	maxRate      = 1e9
)

// admissionOptions is how much is served at a time, and how the rest waits.
func admissionOptions(a *admissionConfig) []*option {
	return slices.Concat(admissionLimits(a), queueOptions(a))
}

const admissionCategory = "admission"

// admissionLimits is what a request has to wait for.
func admissionLimits(a *admissionConfig) []*option {
	const category = admissionCategory
	const none = "; 0 or none is no limit"
	return []*option{
		{
			name: "max-concurrent-requests", arg: "N", category: category,
			usage:   "serve at most N requests at a time, each until its answer has ended" + none,
			differs: "32768 there, and no such limit: a place is free again when an answer begins, and as time passes",
			one:     orNone("0", readWhole(&a.MaxConcurrent, 0, math.MaxInt)),
		},
		{
			name: "max-worker-inflight", arg: "N", category: category, from: ours,
			usage: "have at most N requests at each worker, or at each rank of one, at a time" + none,
			one:   orNone("0", readWhole(&a.MaxInflight, 0, math.MaxInt)),
		},
		{
			name: "rate-limit-tokens-per-second", arg: "N", category: category,
			usage: "admit N requests a second, and at once after a pause as many as --max-concurrent-requests says, or else those of one second" + none,
			differs: "whole numbers there, 0 being 1; 32768 at once unless --max-concurrent-requests says otherwise; " +
				"requests that end make room for others beyond the rate there",
			one: orNone("0", readDecimal(&a.RatePerSecond, 0, maxRate)),
		},
	}
}

// queueOptions is who waits, for how long and in which order.
func queueOptions(a *admissionConfig) []*option {
	const category = admissionCategory
	return []*option{
		{
			name: "queue-size", arg: "N", category: category, def: "100",
			usage:   "let at most N requests wait for the limits above, and have those of the lowest class and the heaviest tenant give way when more come; 0 has none wait",
			differs: "does not bound how many wait there; at most 65536 here",
			one:     readWhole(&a.QueueSize, 0, maxQueueSize),
		},
		{
			name: "queue-timeout-secs", arg: "SECONDS", category: category, def: "60",
			usage:   "turn a request away that has waited for SECONDS",
			differs: "requests are often turned away earlier there",
			one:     readSeconds(&a.QueueTimeout, shortest, longest),
		},
		{
			name: "priority-header", arg: "NAME", category: category, from: ours,
			usage: "take a request's class from header NAME, 0 to 7, of which the highest waits least; clients choose it unless something in front sets it",
			one:   readHeaderName(&a.PriorityHeader, "x-priority"),
		},
		{
			name: "tenant-header", arg: "NAME", category: category, from: ours,
			usage: "take a request's tenant from header NAME if its key names none; tenants of one class whose requests wait get equal shares",
			one:   readHeaderName(&a.TenantHeader, "x-tenant"),
		},
		{
			name: "queue-ageing-secs", arg: "SECONDS", category: category, def: "5", from: ours,
			usage: "raise requests that wait by one class each SECONDS in which none of their class and tenant was served",
			one:   readSeconds(&a.QueueAgeing, shortest, longest),
		},
		{
			name: "request-deadline-ms", arg: "MS", category: category, from: ours,
			usage: "turn a request away if it can't be served within MS milliseconds, at once where that is foreseen; " +
				"its own x-request-deadline-ms wins; 0 or none sets no deadline",
			one: readMillisOrNone(&a.Deadline),
		},
	}
}

// readHeaderName reads the name of a header, such as example, in lower case.
func readHeaderName(dst *string, example string) func(string) error {
	return func(value string) error {
		if !isToken(value) {
			return fmt.Errorf("%q is not a header's name: write it as %s", value, example)
		}
		*dst = strings.ToLower(value)
		return nil
	}
}
