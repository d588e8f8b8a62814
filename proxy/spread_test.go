package proxy

import (
	"fmt"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// TestNewPrefixesSpreadAndStay: many new prefixes, one after another on an idle
// fleet, are spread over it, and what follows goes where its prefix is.
func TestNewPrefixesSpreadAndStay(t *testing.T) {
	const prefixes, workers = 512, 4
	for _, policy := range []string{"cache_aware", "least_work"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			var ws []*proxytest.Worker
			for range workers {
				ws = append(ws, proxytest.NewWorker(t, proxytest.JSON(200, "{}")))
			}
			r := startRouter(t, testOptions(policy), ws...)
			counts := func() (n [workers]int) {
				for i, w := range ws {
					n[i] = w.Requests()
				}
				return n
			}
			served := func(body string) int {
				before := counts()
				if got := r.call("POST", "/v1/chat/completions", body); got.Status != 200 {
					t.Fatalf("status %d", got.Status)
				}
				for i, n := range counts() {
					if n > before[i] {
						return i
					}
				}
				t.Fatal("no worker got the request")
				return -1
			}
			prefix := func(i int) string {
				return fmt.Sprintf("conversation %d: %s", i, strings.Repeat(fmt.Sprint("fact ", i, ", "), 60))
			}
			message := func(s string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, s) }
			var home [prefixes]int
			for i := range prefixes {
				home[i] = served(fmt.Sprintf(`{"model":"m","messages":[%s]}`, message(prefix(i))))
			}
			for i, n := range counts() {
				if share := float64(n) / prefixes; share < 0.15 || share > 0.40 {
					t.Errorf("worker %d got %.0f %% of the new prefixes, want 15 to 40", i, 100*share)
				}
			}
			kept := 0
			for i := range prefixes {
				if served(fmt.Sprintf(`{"model":"m","messages":[%s,%s]}`, message(prefix(i)), message("and then?"))) == home[i] {
					kept++
				}
			}
			if kept < prefixes*95/100 {
				t.Errorf("%d of %d later turns went where their prefix is, want 95 %%", kept, prefixes)
			}
			t.Logf("%d of %d later turns went where their prefix is; first turns by worker: %v", kept, prefixes, counts())
		})
	}
}
