package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/orca"
	"loadstar/proxy/proxytest"
)

// reports answers with a report of load, be it asked for or not.
func reports(report string) proxytest.Script {
	return func(x *proxytest.Exchange) {
		x.Reply(200, `{}`, proxytest.H("Content-Type", "application/json"), proxytest.H(orca.Header, report), proxytest.H("X-Other", "1"))
	}
}

// TestReportedLoadWeighs: choices move away from a worker that says 50 requests wait
// there, for as long as its word counts.
func TestReportedLoadWeighs(t *testing.T) {
	t.Parallel()
	const requests = 40
	busy := proxytest.NewWorker(t, reports("TEXT named_metrics.kv_cache_usage_perc=0.9, named_metrics.num_requests_waiting=50.0"))
	free := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	r := startRouter(t, testOptions("power_of_two"), busy, free)
	begun := time.Now()
	for i := range requests {
		want200(t, ask(t, r, chatPath, chat(fmt.Sprint(i, strings.Repeat(" other", 20)), false)), `{}`)
	}
	// It is asked again whenever its word is two seconds old.
	most := 1 + int(time.Since(begun)/(2*time.Second))
	if n := len(busy.Seen()); n == 0 || n > most {
		t.Errorf("%d of %d requests at the worker that is busy, want 1 to %d", n, requests, most)
	}
	v, err := r.router.Snapshot(0) // of a time at which it counts
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Workers {
		w := &v.Workers[i]
		want := 0
		if w.URL == busy.URL() {
			want = 49 // one of them was the request that it answered
		}
		if w.Foreign != want || w.Load != 0 {
			t.Errorf("%s has foreign load %d and load %d, want %d and 0", w.URL, w.Foreign, w.Load, want)
		}
	}
}

// TestReports: what is no number of requests is nothing, and does no harm.
func TestReports(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, report string
		used, unused float64
		foreign      int
	}{
		{"text", "TEXT named_metrics.num_requests_waiting=4.0, named_metrics.num_requests_running=3.0", 2, 0, 6},
		{"JSON", `JSON {"named_metrics": {"kv_cache_usage_perc": 0.5, "num_requests_waiting": 7.0}}`, 2, 0, 6},
		{"the router's own", "TEXT named_metrics.num_requests_running=1.0", 2, 0, 0},
		{"protobuf", "BIN CdPpC1cFGEA=", 0, 2, 0},
		{"no number", "TEXT named_metrics.num_requests_waiting=NaN", 0, 2, 0},
		{"below zero", "TEXT named_metrics.num_requests_waiting=-5", 0, 2, 0},
		{"huge", "TEXT named_metrics.num_requests_waiting=1e300", 0, 2, 0},
		{"long", "TEXT " + strings.Repeat("a=1,", 5000) + "named_metrics.num_requests_waiting=5", 0, 2, 0},
		{"empty", "", 0, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, reports(tt.report))
			r := startRouter(t, once(), w)
			for range 2 { // over a new connection and over a kept one
				resp := ask(t, r, chatPath, chat("hi", false))
				want200(t, resp, `{}`)
				wantValues(t, resp, orca.Header, tt.report)
			}
			v, err := r.router.Snapshot(0)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Workers[0].Foreign; got != tt.foreign {
				t.Errorf("foreign load %d, want %d", got, tt.foreign)
			}
			m := r.scrape()
			used, unused := m[`loadstar_load_reports_total{result="used"}`], m[`loadstar_load_reports_total{result="unused"}`]
			if used != tt.used || unused != tt.unused {
				t.Errorf("%v reports used and %v not, want %v and %v", used, unused, tt.used, tt.unused)
			}
		})
	}
}

// TestAskLoad: the router asks where it is to, never in the client's place, and keeps
// to itself what only it has asked for.
func TestAskLoad(t *testing.T) {
	t.Parallel()
	const report = "TEXT named_metrics.num_requests_waiting=4.0"
	for _, tt := range []struct {
		name         string
		asks, stream bool
		client       []string
		worker, told []string
	}{
		{"nobody asks", false, false, nil, nil, []string{report}},
		{"the client asks", false, false, []string{"JSON"}, []string{"JSON"}, []string{report}},
		{"the router asks", true, false, nil, []string{"TEXT"}, nil},
		{"the router asks for a stream", true, true, nil, []string{"TEXT"}, nil},
		{"both ask", true, false, []string{"JSON"}, []string{"JSON"}, []string{report}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				if !tt.stream {
					reports(report)(x)
					return
				}
				x.SSEHead(proxytest.H(orca.Header, report), proxytest.H("X-Other", "1"))
				x.Done()
				x.EndChunks()
			})
			o := once()
			o.AskLoad = tt.asks
			r := startRouter(t, o, w)
			var headers []proxytest.Header
			for _, format := range tt.client {
				headers = append(headers, proxytest.H("Endpoint-Load-Metrics-Format", format))
			}
			resp := ask(t, r, chatPath, chat("hi", tt.stream), headers...)
			wantValues(t, theRequest(t, w), orca.FormatHeader, tt.worker...)
			wantValues(t, resp, orca.Header, tt.told...)
			wantValues(t, resp, "X-Other", "1")
			if m := r.scrape(); m[`loadstar_load_reports_total{result="used"}`] != 1 {
				t.Error("the report was not used")
			}
		})
	}
}

// TestAskLoadOfAPair: both workers of a pair are asked, one after the other or at once,
// and neither's word reaches the client, be it with a refusal.
func TestAskLoadOfAPair(t *testing.T) {
	t.Parallel()
	const report = "TEXT named_metrics.num_requests_waiting=4.0"
	refuse := func(x *proxytest.Exchange) {
		x.Reply(400, `{"error":{"message":"no"}}`, proxytest.H("Content-Type", "application/json"), proxytest.H(orca.Header, report))
	}
	for _, tt := range []struct {
		name            string
		beside          bool
		prefill, decode proxytest.Script
		status          int
		used            float64
	}{
		{"answered", false, reports(report), reports(report), 200, 2},
		{"refused by the prefill worker", false, refuse, reports(report), 400, 1},
		{"refused beside the decode request", true, refuse, controlCalls(proxytest.Silent), 400, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := noRetries()
			o.AskLoad = true
			var r *router
			var p, d *proxytest.Worker
			if tt.beside {
				f := newMoonPair(t, o, tt.prefill, tt.decode)
				r, p, d = f.r, f.p, f.d
			} else {
				p, d = proxytest.NewWorker(t, tt.prefill), proxytest.NewWorker(t, tt.decode)
				r = startPD(t, o, []*proxytest.Worker{p}, []*proxytest.Worker{d})
			}
			resp := ask(t, r, chatPath, chat("hi", false))
			if resp.Status != tt.status {
				t.Errorf("status %d, want %d", resp.Status, tt.status)
			}
			for _, x := range append(p.Seen(), d.Seen()...) {
				if x.Path() == chatPath {
					wantValues(t, x, orca.FormatHeader, "TEXT")
				}
			}
			wantValues(t, resp, orca.Header)
			if got := r.scrape()[`loadstar_load_reports_total{result="used"}`]; got != tt.used {
				t.Errorf("%v reports used, want %v", got, tt.used)
			}
		})
	}
}

// An answer without a report costs nothing: no message, no metric, no memory.
func TestNoReportCostsNothing(t *testing.T) {
	g := new(leg) // it has no router that it could tell
	if err := g.answer.ParseAnswer([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Endpoint-Load-Metrics: TEXT\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	lines := make([]byte, 0, 256)
	if got := testing.AllocsPerRun(100, func() { g.hearReport(0); lines = g.appendLines(lines[:0]) }); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
