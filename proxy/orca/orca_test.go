package orca

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRequests(t *testing.T) {
	text := func(items ...string) string { return "TEXT named_metrics." + strings.Join(items, ", named_metrics.") }
	json := func(metrics string) string { return `JSON {"named_metrics": {` + metrics + `}}` }
	thousand := make([]string, 1000)
	for i := range thousand {
		thousand[i] = fmt.Sprintf("m%d", i) + "=1"
	}
	for _, tt := range []struct {
		name, header string
		want         int
		ok           bool
	}{
		{"text of vLLM", text("kv_cache_usage_perc=0.25", "num_requests_waiting=3.0"), 3, true},
		{"JSON of vLLM", json(`"kv_cache_usage_perc": 0.25, "num_requests_waiting": 3.0`), 3, true},
		{"text, both numbers", text("num_requests_waiting=3.0", "num_requests_running=16.0"), 19, true},
		{"JSON, both numbers", json(`"num_requests_running":16,"num_requests_waiting":3`), 19, true},
		{"text, running alone", text("num_requests_running=4.0"), 4, true},
		{"none at all", text("num_requests_waiting=0.0"), 0, true},
		{"the format in another case", "text named_metrics.num_requests_waiting=3.0", 3, true},
		{"colons", "TEXT cpu_utilization:0.3,named_metrics.num_requests_waiting:2", 2, true},
		{"blanks", "TEXT  a = 1 ,  named_metrics.num_requests_waiting = 3.0 ", 3, true},
		{"exponent", json(`"num_requests_waiting": 1e2`), 100, true},
		{"JSON with a name in escapes", json(`"num\u005frequests_waiting": 7`), 7, true},
		{"JSON with other members", `JSON {"cpu_utilization":0.3,"named_metrics":{"num_requests_waiting":5},"eps":1}`, 5, true},
		{"text of several engines", text("num_requests_waiting=3.0", "num_requests_waiting=4.0", "kv_cache_usage_perc=0.1", "num_requests_waiting=0.0"), 7, true},
		{"the most", text("num_requests_waiting=1048576"), 1 << 20, true},

		{"empty", "", 0, false},
		{"format alone", "TEXT", 0, false},
		{"no format", "named_metrics.num_requests_waiting=3.0", 0, false},
		{"protobuf", "BIN CdPpC1cFGEA=", 0, false},
		{"text of Triton", "TEXT cpu_utilization=0.3, named_metrics.kv_cache_utilization=0.4", 0, false},
		{"not among the named metrics", "TEXT num_requests_waiting=3.0", 0, false},
		{"a longer name", text("num_requests_waiting_long=3.0"), 0, false},
		{"no value", text("num_requests_waiting"), 0, false},
		{"empty value", text("num_requests_waiting="), 0, false},
		{"below zero", text("num_requests_waiting=-1.0"), 0, false},
		{"JSON below zero", json(`"num_requests_waiting": -1`), 0, false},
		{"no number", text("num_requests_waiting=nan"), 0, false},
		{"JSON no number", json(`"num_requests_waiting": NaN`), 0, false},
		{"infinite", text("num_requests_waiting=Inf"), 0, false},
		{"JSON infinite", json(`"num_requests_waiting": Infinity`), 0, false},
		{"beyond all sense", text("num_requests_waiting=1048577"), 0, false},
		{"beyond all numbers", text("num_requests_waiting=1e999"), 0, false},
		{"a number of many digits", text("num_requests_waiting=" + strings.Repeat("0", 40) + "3"), 0, false},
		{"told too often", text(slices.Repeat([]string{"num_requests_waiting=1048576"}, 50)...), 0, false},
		{"one of two wrong", text("num_requests_waiting=3", "num_requests_running=-4"), 0, false},
		{"JSON string", json(`"num_requests_waiting": "3"`), 0, false},
		{"JSON array", `JSON [{"named_metrics":{"num_requests_waiting":3}}]`, 0, false},
		{"JSON cut", `JSON {"named_metrics":{"num_requests_waiting":3`, 0, false},
		{"JSON at the top", `JSON {"num_requests_waiting":3}`, 0, false},
		{"a thousand metrics and one", text(append(thousand, "num_requests_waiting=3")...), 0, false},
		{"64 KB", text("num_requests_waiting=3") + strings.Repeat(" ", 64<<10), 0, false},
		{"as many as are read", "TEXT " + strings.Repeat("a=1,", 1000) + "named_metrics.num_requests_waiting=3", 3, true},
		{"commas alone", "TEXT " + strings.Repeat(",", 4000), 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if n, ok := Requests([]byte(tt.header)); n != tt.want || ok != tt.ok {
				t.Errorf("Requests(%.60q) = %d, %v; want %d, %v", tt.header, n, ok, tt.want, tt.ok)
			}
		})
	}
}
