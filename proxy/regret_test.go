package proxy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

var errTestDown = errors.New("down")

// What was cached is counted beside what could have been: a prompt that is known at one
// worker and is sent to another has its whole length as the best, and nothing matched.
func TestCacheRegret(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		policy string
		away   bool // the second request goes where the prompt is not known
		want   string
	}{
		{"found", "least_work", false, `{"prompt_blocks":150,"matched_blocks":75,"best_blocks":75,"tokens":{"prompt":2400,"predicted":1200,"reported":1000,"best":1200}}`},
		{"elsewhere", "least_work", true, `{"prompt_blocks":150,"matched_blocks":0,"best_blocks":75,"tokens":{"prompt":2400,"predicted":0,"reported":1000,"best":1200}}`},
		{"by another policy", "cache_aware", false, `{"prompt_blocks":150,"matched_blocks":75,"best_blocks":75,"tokens":{"prompt":2400,"predicted":1200,"reported":1000,"best":1200}}`},
		{"without usage", "cache_aware", false, `{"prompt_blocks":150,"matched_blocks":75,"best_blocks":75,"tokens":{"prompt":0,"predicted":0,"reported":0,"best":0}}`},
		{"by no prefix", "random", false, `null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script := proxytest.JSON(200, `{`+strings.Replace(toldUsage, `"cached_tokens":0`, `"cached_tokens":500`, 1)+`}`)
			if tc.name == "without usage" {
				script = proxytest.JSON(200, `{}`)
			}
			first, second := proxytest.NewWorker(t, script), proxytest.NewWorker(t, script)
			o := testOptions(tc.policy)
			o.Router.Health.Interval, o.Router.Health.RetryInterval = time.Hour, time.Hour // what the test says of health stays
			o.Health.HealthOptions = o.Router.Health
			r := startRouter(t, o, first)
			ask := func() {
				t.Helper()
				c := proxytest.Dial(t, r.addr)
				if err := c.Post("/v1/chat/completions", `{"model":"m","input":"`+lesson+`"}`, jsonType); err != nil {
					t.Fatal(err)
				}
				if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
					t.Fatalf("%+v, %v", got, err)
				}
				r.waitIdle()
			}
			ask()
			if tc.away {
				if _, err := r.AddWorker(WorkerSpec{URL: second.URL(), Priority: 50}); err != nil {
					t.Fatal(err)
				}
				r.waitHealthy(2)
				r.router.ReportHealth(first.URL(), errTestDown)
				for r.router.ReportHealth(first.URL(), errTestDown) {
				}
			}
			ask()
			c := proxytest.Dial(t, r.addr)
			if err := c.Get("/workers"); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			var v struct{ Cache json.RawMessage }
			if err := json.Unmarshal(got.Body, &v); err != nil {
				t.Fatal(err)
			}
			if v.Cache == nil {
				v.Cache = json.RawMessage("null")
			}
			if text := string(v.Cache); text != tc.want {
				t.Errorf("%s, want %s", text, tc.want)
			}
		})
	}
}
