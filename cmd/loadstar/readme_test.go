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

func readmeText(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// shellLines returns the lines of the README's sh blocks without comments.
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

// The README's commands do what it says: make targets exist, the router starts
// with its command line, and its calls are answered with success in its order.
func TestReadmeCommands(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, urls := simulated(t, 5)
	f := files{t, t.TempDir()}
	names := []string{
		"http://10.0.0.1:8000", urls[0], "http://10.0.0.2:8000", urls[1], "http://10.0.0.3:8000", urls[2],
		"http://10.0.1.1:8000", urls[3], "http://10.0.1.2:8000", urls[4],
		"8998", urls[0][strings.LastIndex(urls[0], ":")+1:], // its bootstrap server is the worker itself
		"0.0.0.0:36367", freeAddr(t),
		"workers.yaml", f.write("workers.yaml", []byte("- url: "+urls[0]+"\n")),
		"vllm.default.svc.cluster.local:8000", "localhost" + urls[0][strings.LastIndex(urls[0], ":"):],
		"--service-discovery ", "--kubeconfig " + f.write("kubeconfig", []byte(noCluster)) + " --service-discovery ",
	}
	replace := strings.NewReplacer(names...)
	calls := 0
	for _, line := range shellLines(readmeText(t)) {
		words := strings.Fields(replace.Replace(line))
		switch words[0] {
		case "make":
			if !strings.Contains(string(makefile), "\n"+words[1]+":") {
				t.Errorf("%s: the Makefile has no such target", line)
			}
		case "bin/loadstar":
			_, out := start(t, `"listening"`, append(words[1:], "--port", "0", "--prometheus-port", "0", "--log-format", "json")...)
			var entry struct{ Address, Metrics string }
			for _, l := range strings.Split(out, "\n") {
				if strings.Contains(l, `"listening"`) {
					if err := json.Unmarshal([]byte(l), &entry); err != nil {
						t.Fatal(err)
					}
				}
			}
			_, port, _ := strings.Cut(strings.ReplaceAll(entry.Address, "[::]", ""), ":")
			if !slices.Contains(words, "--vllm-discovery-address") && !slices.Contains(words, "--service-discovery") { // nobody registers, and there is no cluster
				waitReady(t, "127.0.0.1:"+port)
			}
			replace = strings.NewReplacer(append(names, "127.0.0.1:30000", "127.0.0.1:"+port, "127.0.0.1:29000", entry.Metrics)...)
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
			if resp.StatusCode != 200 {
				t.Errorf("%s: %d %s", line, resp.StatusCode, text)
			}
			calls++
		default:
			t.Errorf("%s: this test doesn't know how to try that", line)
		}
	}
	if calls < 3 {
		t.Errorf("%d calls tried, so the README was not understood", calls)
	}
}

// The metrics that are served are those in the README's table, names and
// labels, after a request that was retried until it failed, one that went well,
// and one in two phases.
func TestReadmeMetrics(t *testing.T) {
	table := make(map[string][]string) // labels of each name
	_, section, _ := strings.Cut(readmeText(t), "\n## Metrics\n")
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
			t.Errorf("%s is served and not in the README", name)
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
			t.Errorf("%s has labels %q, and %q in the README", name, got, want)
		}
	}
	for name := range table {
		// Only a client that leaves makes this histogram.
		if !served[name] && name != "loadstar_client_gone_close_seconds" {
			t.Errorf("%s is in the README and not served", name)
		}
	}
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
	_, out := start(t, `"listening"`, "--port", "0", "--prometheus-port", "0", "--log-format", "json", "--worker-urls", worker.URL, "--stream-failover", "--workers-file", files{t, t.TempDir()}.write("workers", []byte("[]")),
		"--peers-nats", "nats://127.0.0.1:1", "--retry-max-retries", "2", "--retry-initial-backoff-ms", "1", "--cb-failure-threshold", "2")
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
	addr = running(t, io.Discard, "--enable-igw", "--vllm-pd-disaggregation", "--prefill", urls[0], "--decode", urls[1])
	waitFleet(t, addr, "two healthy workers", fleetView.healthy)
	answer(t, addr, plainChat)
	text += metricsOf(t, addr, "vllm_router_pd_request_duration_seconds")
	return text + metricsOf(t, learnCacheSize(t).addr, "vllm_router_request_duration_seconds")
}

// metricsOf returns a router's metrics, once there is one of a name.
func metricsOf(t *testing.T, addr, name string) string {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
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

// Links to files lead somewhere, and every flag named is one.
func TestReadmeNames(t *testing.T) {
	text := readmeText(t)
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], "https://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Error(err)
		}
	}
	known := make(map[string]bool)
	for _, o := range everyOption() {
		known["--"+o.name] = true
	}
	for _, m := range regexp.MustCompile(`--[a-z][a-z-]+\*?`).FindAllString(text, -1) {
		family, some := strings.CutSuffix(m, "*")
		begins := func(flag string) bool { return some && strings.HasPrefix(flag, family) }
		if !known[m] && !slices.ContainsFunc(slices.Collect(maps.Keys(known)), begins) {
			t.Errorf("%s is no flag", m)
		}
	}
}
