package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// The documents whose commands and names are checked.
const (
	readmeDoc     = root + "/README.md"
	operationsDoc = "OPERATIONS.md"
	migrationDoc  = "MIGRATION.md"
	troubleDoc    = "TROUBLESHOOTING.md"
)

var documents = []string{readmeDoc, operationsDoc, migrationDoc, troubleDoc}

func docText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// shellLines returns the lines of a document's sh blocks without comments.
func shellLines(text string) []string {
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for _, l := range strings.Split(strings.ReplaceAll(block[1], "\\\n", ""), "\n") {
			l, _, _ = strings.Cut(l, " #")
			if l = strings.TrimSpace(l); l != "" {
				lines = append(lines, l)
			}
		}
	}
	return lines
}

// noCluster is a kubeconfig of a cluster that isn't there.
const noCluster = `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: k}}]}`

// The documents' commands do what they say: make targets exist, the router starts
// with its command line, calls are answered with success in their order, and what is
// given to other programs is there.
func TestDocumentedCommands(t *testing.T) {
	for _, doc := range documents {
		t.Run(filepath.Base(doc), func(t *testing.T) {
			if tried := tryCommands(t, docText(t, doc)); tried < 1 {
				t.Errorf("%d commands tried, so the document was not understood", tried)
			}
		})
	}
}

// tryCommands runs a document's commands and says how many of the router's own they
// were.
func tryCommands(t *testing.T, text string) (tried int) {
	makefile := docText(t, filepath.Join(root, "Makefile"))
	_, urls := simulated(t, 5)
	f := files{t, t.TempDir()}
	names := []string{
		"http://10.0.0.1:8000", urls[0], "http://10.0.0.2:8000", urls[1], "http://10.0.0.3:8000", urls[2],
		"http://10.0.1.1:8000", urls[3], "http://10.0.1.2:8000", urls[4],
		"8998", urls[0][strings.LastIndex(urls[0], ":")+1:], // its bootstrap server is the worker itself
		"0.0.0.0:36367", strings.Replace(freeAddr(t), "127.0.0.1", "127.0.0.2", 1), // where none of the others is given the port meanwhile
		"0.0.0.0:6222", strings.Replace(freeAddr(t), "127.0.0.1", "127.0.0.3", 1), "10.0.2.", "127.0.9.",
		"workers.yaml", f.write("workers.yaml", []byte("- url: "+urls[0]+"\n")),
		"vllm.default.svc.cluster.local:8000", "localhost" + urls[0][strings.LastIndex(urls[0], ":"):],
		"--service-discovery ", "--kubeconfig " + f.write("kubeconfig", []byte(noCluster)) + " --service-discovery ",
	}
	replace := strings.NewReplacer(names...)
	running := false
	for _, line := range shellLines(text) {
		words := strings.Fields(replace.Replace(line))
		if !running && (words[0] == "curl" || len(words) > 1 && (words[1] == topCommand || words[1] == checkCommand)) {
			addr, metrics := routerFor(t, []string{"--worker-urls", urls[0], urls[1]})
			replace, running = strings.NewReplacer(append(names, "127.0.0.1:30000", addr, "127.0.0.1:29000", metrics)...), true
			words = strings.Fields(replace.Replace(line))
		}
		switch words[0] {
		case "make":
			if !strings.Contains(makefile, "\n"+words[1]+":") {
				t.Errorf("%s: the Makefile has no such target", line)
			}
		case "bin/loadstar":
			tried++
			if len(words) > 1 && isCommand(words[1]) && !routes(words[1]) {
				err := program{out: io.Discard, top: showTop, check: check}.run(t.Context(), words[1:])
				if err != nil {
					t.Errorf("%s: %v", line, err)
				}
				continue
			}
			addr, metrics := routerFor(t, words[1:])
			replace, running = strings.NewReplacer(append(names, "127.0.0.1:30000", addr, "127.0.0.1:29000", metrics)...), true
		case "curl":
			method, url := http.MethodGet, words[len(words)-1]
			if words[1] == "-X" {
				method = words[2]
			}
			req, err := http.NewRequest(method, strings.Trim(url, "'"), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode/100 != 2 {
				t.Errorf("%s: %d %s", line, resp.StatusCode, text)
			}
			tried++
		case "docker", "kubectl", "helm":
			for _, w := range words[1:] {
				if !strings.HasPrefix(w, "cmd/") {
					continue
				}
				if _, err := os.Stat(filepath.Join(root, w)); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		case "systemctl":
			if _, err := os.Stat("packaging/systemd/" + words[len(words)-1] + ".service"); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		default:
			t.Errorf("%s: this test doesn't know how to try that", line)
		}
	}
	return tried
}

// routerFor starts a router with a documented command line, at ports that are free,
// and says where it serves clients and metrics.
func routerFor(t *testing.T, args []string) (addr, metrics string) {
	t.Helper()
	_, out := start(t, `"listening"`, append(slices.Clone(args), "--host", "127.0.0.1", "--port", "0", "--prometheus-port", "0", "--log-format", "json")...)
	var entry struct{ Address, Metrics string }
	for _, l := range strings.Split(out, "\n") {
		if strings.Contains(l, `"listening"`) {
			if err := json.Unmarshal([]byte(l), &entry); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Contains(args, "--vllm-discovery-address") && !slices.Contains(args, "--service-discovery") { // nobody registers, and there is no cluster
		waitReady(t, entry.Address)
	}
	return entry.Address, entry.Metrics
}

// The metrics that are served are those in OPERATIONS.md's table, names
// and labels, after a request that was retried until it failed, one that went well,
// and one in two phases.
func TestDocumentedMetrics(t *testing.T) {
	table := metricTable(t)
	text := everyMetric(t)
	served := make(map[string]bool)
	labelName := regexp.MustCompile(`([a-z]+)="`)
	for _, l := range strings.Split(text, "\n") {
		series, _, _ := strings.Cut(l, " ")
		name, set, _ := strings.Cut(series, "{")
		if !strings.HasPrefix(name, "loadstar_") && !strings.HasPrefix(name, "vllm_router_") {
			continue
		}
		if strings.HasSuffix(name, "_seconds_bucket") || strings.HasSuffix(name, "_seconds_sum") || strings.HasSuffix(name, "_seconds_count") {
			name = name[:strings.LastIndexByte(name, '_')]
		}
		if served[name] {
			continue
		}
		served[name] = true
		want, ok := table[name]
		if !ok {
			t.Errorf("%s is served and not in OPERATIONS.md", name)
			continue
		}
		got := []string{}
		for _, m := range labelName.FindAllStringSubmatch(set, -1) {
			if m[1] != "vmrange" { // of every histogram
				got = append(got, m[1])
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has labels %q, and %q in OPERATIONS.md", name, got, want)
		}
	}
	for name := range table {
		// Only a client that leaves makes this histogram.
		if !served[name] && name != "loadstar_client_gone_close_seconds" {
			t.Errorf("%s is in OPERATIONS.md and not served", name)
		}
	}
}

// metricTable has the labels of each metric in OPERATIONS.md.
func metricTable(t *testing.T) map[string][]string {
	t.Helper()
	table := make(map[string][]string)
	_, section, _ := strings.Cut(docText(t, operationsDoc), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, l := range strings.Split(section, "\n") {
		if !strings.HasPrefix(l, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(l, "|"), "|")
		labels := strings.Split(cells[1], ";")
		for i, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[0], -1) {
			list := labels[min(i, len(labels)-1)]
			table[name[1]] = strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
			if strings.Contains(list, "none") {
				table[name[1]] = nil
			}
		}
	}
	return table
}

// everyMetric is what two routers serve: one after a request that was retried until
// it failed and one that went well, and one after a request in two phases.
func everyMetric(t *testing.T) string {
	t.Helper()
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer worker.Close()
	_, out := start(t, `"listening"`, "--port", "0", "--prometheus-port", "0", "--log-format", "json", "--worker-urls", worker.URL, "--stream-failover", "--shadow-policy", "random", "--workers-file", files{t, t.TempDir()}.write("workers", []byte("[]")),
		"--peers-nats", "nats://127.0.0.1:1", "--enable-trace", "--otlp-traces-endpoint", "127.0.0.1:1", "--retry-max-retries", "2", "--retry-initial-backoff-ms", "1", "--cb-failure-threshold", "2")
	addr := listening(t, out)
	waitReady(t, addr)
	for _, path := range []string{"/v1/completions", "/v1/chat/completions"} {
		resp, err := http.Post("http://"+addr+path, "application/json", strings.NewReader(`{"prompt":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	text := metricsOf(t, addr, "vllm_router_request_duration_seconds")

	_, urls := simulated(t, 2)
	addr = running(t, io.Discard, "--enable-igw", "--vllm-pd-disaggregation", "--prefill", urls[0], "--decode", urls[1],
		"--prefill-policy", policyKVAware, "--kv-event-source", urls[0]+"=tcp://127.0.0.1:1")
	waitFleet(t, addr, "two healthy workers", fleetView.healthy)
	answer(t, addr, plainChat)
	text += metricsOf(t, addr, "vllm_router_pd_request_duration_seconds")
	return text + metricsOf(t, learnCacheSize(t).addr, "vllm_router_request_duration_seconds")
}

// metricsOf returns a router's metrics, once there is one of a name.
func metricsOf(t *testing.T, addr, name string) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.Contains(string(text), "\n"+name+"_"):
			return string(text)
		case time.Now().After(end):
			t.Fatalf("no metric %s in %s", name, text)
		}
	}
}

// Links lead somewhere, and every flag, metric, path and make target named is one.
func TestDocumentedNames(t *testing.T) {
	known := make(map[string]bool)
	for _, o := range everyOption() {
		known["--"+o.name] = true
	}
	for _, name := range append(refusedFlags(), helpFlag, versionFlag) {
		known["--"+name] = true
	}
	for _, f := range referenceFlags {
		known["--"+f.name] = true
	}
	metrics, sources := metricTable(t), routerSources(t)
	for _, doc := range documents {
		t.Run(filepath.Base(doc), func(t *testing.T) {
			text := docText(t, doc)
			checkLinks(t, doc, text)
			for _, m := range regexp.MustCompile(`--[a-z][a-z0-9-]+\*?`).FindAllString(text, -1) {
				family, some := strings.CutSuffix(m, "*")
				begins := func(flag string) bool { return some && strings.HasPrefix(flag, family) }
				if !known[m] && !slices.Contains(foreignFlags, m) && !slices.ContainsFunc(slices.Collect(maps.Keys(known)), begins) {
					t.Errorf("%s is no flag", m)
				}
			}
			for _, m := range regexp.MustCompile("`((?:loadstar|vllm_router)_[a-z_]*[a-z])`").FindAllStringSubmatch(text, -1) {
				if _, ok := metrics[m[1]]; !ok {
					t.Errorf("%s is no metric", m[1])
				}
			}
			for _, m := range regexp.MustCompile("`(?:(?:GET|POST|DELETE) )?(/[a-z_0-9/]+)").FindAllStringSubmatch(text, -1) {
				if path := strings.TrimSuffix(m[1], "/"); !strings.Contains(sources, `"`+path+`"`) && !strings.HasPrefix(path, "/debug/pprof/") { // fasthttp serves these
					t.Errorf("%s is no path that the router knows", path)
				}
			}
		})
	}
}

// foreignFlags are flags of other programs that the documents name.
var foreignFlags = []string{"--build-arg", "--read-only", "--stop-timeout", "--set", "--now", "--max-num-seqs"}

// routerSources is the text of the packages that answer requests.
func routerSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"/proxy/*.go", "/proxy/*/*.go"} {
		names, err := filepath.Glob(root + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				all.WriteString(docText(t, name))
			}
		}
	}
	return all.String()
}

// checkLinks checks a document's links to files, and to headings.
func checkLinks(t *testing.T, doc, text string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]+))?\)`).FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], "https://") {
			continue
		}
		target := doc
		if m[1] != "" {
			target = filepath.Join(filepath.Dir(doc), m[1])
		}
		if _, err := os.Stat(target); err != nil {
			t.Error(err)
			continue
		}
		if m[2] != "" && !slices.Contains(headings(docText(t, target)), m[2]) {
			t.Errorf("%s has no heading #%s", target, m[2])
		}
	}
}

// headings are the anchors of a document's headings, as they are made of them.
func headings(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile("[^a-z0-9 _-]").ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}
