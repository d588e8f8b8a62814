package orca

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
)

// slowRequests is Requests plainly written. JSON that isn't valid is not its to judge.
func slowRequests(header string) (n int, ok, judged bool) {
	format, report, _ := strings.Cut(header, " ")
	told := map[string][]string{}
	switch {
	case len(header) > 4096:
		return 0, false, true
	case strings.EqualFold(format, "text"):
		for item := range strings.SplitSeq(report, ",") {
			if at := strings.IndexAny(item, "=:"); at >= 0 {
				name := strings.TrimSpace(item[:at])
				told[name] = append(told[name], strings.TrimSpace(item[at+1:]))
			}
		}
	case strings.EqualFold(format, "json"):
		if !json.Valid([]byte(report)) {
			return 0, false, false
		}
		var all, named map[string]json.RawMessage
		_ = json.Unmarshal([]byte(report), &all)
		_ = json.Unmarshal(all["named_metrics"], &named)
		for name, value := range named {
			told["named_metrics."+name] = []string{string(value)}
		}
	}
	for _, name := range []string{"num_requests_waiting", "num_requests_running"} {
		for _, value := range told["named_metrics."+name] {
			v, err := strconv.ParseFloat(value, 64)
			if len(value) > 32 || err != nil || math.IsNaN(v) || v < 0 || v > 1<<20 {
				return 0, false, true
			}
			n, ok = n+int(v), true
		}
	}
	if n > 1<<20 {
		return 0, false, true
	}
	return n, ok, true
}

func FuzzRequests(f *testing.F) {
	for _, s := range []string{
		"", "TEXT", "TEXT ", "JSON", "JSON {}", "BIN CdPpC1cFGEA=", "TEXT named_metrics.num_requests_waiting=3.0",
		"text named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=3.0,named_metrics.num_requests_running:1e1",
		`JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 3.0, "num_requests_running": 2}}`,
		`JSON {"named_metrics":{"num_requests_waiting":1,"num_requests_waiting":2},"named_metrics":{"num_requests_running":-1}}`,
		`JSON {"named_metrics":{"num_requests_waiting":NaN}}`, `JSON {"named_metrics":[{"num_requests_waiting":1}]}`, `JSON {"named_metrics":null}`,
		"TEXT named_metrics.num_requests_waiting=nan", "TEXT named_metrics.num_requests_waiting=0x1p4", "TEXT named_metrics.num_requests_waiting==1",
		"TEXT named_metrics.num_requests_waiting=1,named_metrics.num_requests_waiting=", "TEXT named_metricsnum_requests_waiting=1", "TEXT =,:,,",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		before := bytes.Clone(header)
		n, ok := Requests(header)
		if n < 0 || n > maxRequests || !ok && n != 0 {
			t.Fatalf("Requests(%q) = %d, %v", header, n, ok)
		}
		if want, wantOK, judged := slowRequests(string(header)); judged && (n != want || ok != wantOK) {
			t.Fatalf("Requests(%q) = %d, %v; want %d, %v", header, n, ok, want, wantOK)
		}
		if !bytes.Equal(header, before) {
			t.Fatalf("the header was changed to %q from %q", header, before)
		}
	})
}
