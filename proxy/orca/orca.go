// Package orca reads what a worker says of its own load in the head of an answer:
// the header endpoint-load-metrics of Open Request Cost Aggregation, a format that
// Envoy, gRPC and inference engines share.
//
// The header comes as text or as JSON, and says so with its first word:
//
//	endpoint-load-metrics: TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=3.0
//	endpoint-load-metrics: JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 3.0}}
//
// vLLM sends it with whole answers of completions and chats, not with streams, to
// requests that ask for it with endpoint-load-metrics-format, and tells those two
// metrics. A server of several engines has a number for each: all of them in text, of
// which the sum is taken, and one in JSON. A third format, protobuf in base64, no
// engine sends; it is not read.
//
// Only numbers of requests are taken: they are what a router counts itself.
package orca

import (
	"bytes"
	"strconv"

	"loadstar/proxy/httphead"
	"loadstar/proxy/rawjson"
)

// Header is the name of the header in answers, and FormatHeader that of the one in
// requests that asks for it.
const (
	Header       = "endpoint-load-metrics"
	FormatHeader = "endpoint-load-metrics-format"
)

// The metrics that are taken, those of vLLM without their prefix.
const (
	waiting = "num_requests_waiting"
	running = "num_requests_running"
)

const (
	maxReport   = 4 << 10 // bytes; a longer header is not read
	maxNumber   = 32      // bytes of a number's text
	maxRequests = 1 << 20 // more is no number of requests
)

var named = []byte("named_metrics")

// Requests is how many requests a worker says it has: those that wait there and
// those that run, or the one of the two that it tells. It reports false for a header
// that tells neither, or a number that is none of requests: one below zero, not
// finite, or with the others beyond a million. Time is linear in the header, of which
// nothing is kept, and nothing is allocated.
func Requests(header []byte) (n int, ok bool) {
	if len(header) > maxReport {
		return 0, false
	}
	format, report, _ := bytes.Cut(header, []byte(" "))
	switch {
	case httphead.Is(format, "text"):
		n, ok = textRequests(report)
	case httphead.Is(format, "json"):
		n, ok = jsonRequests(report)
	}
	if !ok || n > maxRequests {
		return 0, false
	}
	return n, true
}

// textRequests reads name=value, name=value. A colon is taken for the equals sign, as
// Envoy takes it.
func textRequests(report []byte) (n int, ok bool) {
	for len(report) > 0 {
		var item []byte
		item, report, _ = bytes.Cut(report, []byte(","))
		at := bytes.IndexAny(item, "=:")
		if at < 0 {
			continue
		}
		name, isNamed := bytes.CutPrefix(bytes.TrimSpace(item[:at]), named)
		if !isNamed || len(name) == 0 || name[0] != '.' {
			continue
		}
		if name = name[1:]; string(name) != waiting && string(name) != running {
			continue
		}
		v, good := number(bytes.TrimSpace(item[at+1:]))
		if !good {
			return 0, false
		}
		n, ok = n+v, true
	}
	return n, ok
}

func jsonRequests(report []byte) (n int, ok bool) {
	metrics := rawjson.Member(report, string(named))
	for _, name := range [...]string{waiting, running} {
		text := rawjson.Member(metrics, name)
		if text == nil {
			continue
		}
		v, good := number(text)
		if !good {
			return 0, false
		}
		n, ok = n+v, true
	}
	return n, ok
}

// number reads a number of requests, which engines write as a decimal fraction.
func number(text []byte) (n int, ok bool) {
	if len(text) > maxNumber {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v >= 0 && v <= maxRequests) { // NaN is neither
		return 0, false
	}
	return int(v), true
}
