package proxy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// shownDecision is a line of /debug/decisions.
type shownDecision struct {
	Time    time.Time
	ID      string
	Model   string
	Attempt int
	Policy  string
	Reason  string
	Blocks  int
	Match   int
	Best    int `json:"best_match"`
	Worker  string
	Prefill string `json:"prefill_worker"`
	Lambda  *float64
	Status  int
	Outcome string
	TTFT    float64 `json:"ttft_ms"`

	Prompt    int `json:"prompt_tokens"`
	Predicted int `json:"predicted_cached_tokens"`
	Cached    int `json:"cached_tokens"`
}

// decisions waits for n entries of the log and returns them, the newest first. No
// prompt is in them.
func (r *router) decisionLog(n int) []shownDecision {
	r.t.Helper()
	var text string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		c := proxytest.Dial(r.t, r.addr)
		if err := c.Get("/debug/decisions"); err != nil {
			r.t.Fatal(err)
		}
		got, err := c.ReadResponse(patience)
		if err != nil || got.Status != 200 {
			r.t.Fatalf("%+v, %v", got, err)
		}
		text = string(got.Body)
		if strings.Contains(text, "secret") {
			r.t.Fatalf("a prompt is shown: %s", text)
		}
		if strings.Count(text, "\n") < n {
			continue
		}
		var all []shownDecision
		for l := range strings.Lines(text) {
			var d shownDecision
			if err := json.Unmarshal([]byte(l), &d); err != nil {
				r.t.Fatalf("%s: %v", l, err)
			}
			all = append(all, d)
		}
		return all
	}
	r.t.Fatalf("fewer than %d decisions: %s", n, text)
	return nil
}

// What was decided is kept with what came of it: that of a stream when it has ended,
// and each attempt.
func TestDecisionLog(t *testing.T) {
	t.Parallel()
	prompt := `{"model":"m","input":"secret ` + lesson + `"}`
	for _, tc := range []struct {
		name   string
		script proxytest.Script
		times  int
		check  func(t *testing.T, w *proxytest.Worker, all []shownDecision)
	}{
		{"an answer with usage", proxytest.JSON(200, `{`+strings.Replace(toldUsage, `"cached_tokens":0`, `"cached_tokens":1000`, 1)+`}`), 2, func(t *testing.T, w *proxytest.Worker, all []shownDecision) {
			d := all[0]
			if d.Worker != w.URL() || d.Model != "m" || d.Policy != "least_work" || d.Reason != "prefix_hit" || d.Attempt != 1 || d.Outcome != "completed" || d.Status != 200 {
				t.Errorf("%+v", d)
			}
			if d.Match != d.Blocks || d.Best != d.Match || d.Blocks < 70 || d.Prompt != 1200 || d.Predicted != 1200 || d.Cached != 1000 || d.TTFT <= 0 || d.Lambda == nil {
				t.Errorf("%+v", d)
			}
			if f := all[1]; f.Reason != "prefix_miss" || f.Match != 0 || f.Best != 0 || f.Predicted != 0 || f.ID == d.ID || !f.Time.Before(d.Time) {
				t.Errorf("the first: %+v", f)
			}
		}},
		{"a stream", func(x *proxytest.Exchange) {
			x.SSEHead()
			x.Event(`{` + toldUsage + `}`)
			x.Done()
			x.EndChunks()
		}, 1, func(t *testing.T, _ *proxytest.Worker, all []shownDecision) {
			if d := all[0]; d.Outcome != "completed" || d.Prompt != 1200 || d.TTFT <= 0 {
				t.Errorf("%+v", d)
			}
		}},
		{"attempts", proxytest.JSON(500, "{}"), 1, func(t *testing.T, _ *proxytest.Worker, all []shownDecision) {
			if len(all) != 2 || all[0].Attempt != 2 || all[1].Attempt != 1 || all[0].Status != 500 || all[0].Outcome != "server_error" || all[1].Outcome != "server_error" || all[0].ID != all[1].ID {
				t.Errorf("%+v", all)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, tc.script)
			o := testOptions("least_work")
			o.DecisionLog = 8
			r := startRouter(t, o, w)
			for n := range tc.times {
				c := proxytest.Dial(t, r.addr)
				if err := c.Post("/v1/chat/completions", prompt, jsonType); err != nil {
					t.Fatal(err)
				}
				if _, err := c.ReadResponse(patience); err != nil {
					t.Fatal(err)
				}
				r.decisionLog(n + 1)
			}
			all := r.decisionLog(tc.times)
			tc.check(t, w, all)
		})
	}
}

// A router that keeps none says so, and one whose admin API is closed shows none.
func TestDecisionLogOff(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, key string
		size      int
		want      int
	}{
		{"off", "", 0, 404},
		{"without the key", "k", 8, 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := testOptions("random")
			o.DecisionLog, o.AdminKey = tc.size, tc.key
			r := startRouter(t, o)
			c := proxytest.Dial(t, r.addr)
			if err := c.Get("/debug/decisions"); err != nil {
				t.Fatal(err)
			}
			if got, err := c.ReadResponse(patience); err != nil || got.Status != tc.want {
				t.Errorf("%+v, %v, want %d", got, err, tc.want)
			}
		})
	}
}
