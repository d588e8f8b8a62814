package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"loadstar/actors/peers/nats/server"
)

const chartDir = "packaging/helm/loadstar"

// readYAML reads a file of the chart.
func readYAML(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, name))
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// render makes the chart's manifests with values over its own. It knows as much of
// Helm as the chart uses of it.
func render(t *testing.T, release string, values string) []byte {
	t.Helper()
	all := template.New("chart").Option("missingkey=error")
	indent := func(n int, s string) string {
		return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
	}
	all.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := all.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"nindent":    indent,
		"quote":      func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"contains":   func(part, s string) bool { return strings.Contains(s, part) },
		"trunc":      func(n int, s string) string { return s[:min(n, len(s))] },
		"trimSuffix": func(end, s string) string { return strings.TrimSuffix(s, end) },
		"default": func(d, v string) string {
			if v == "" {
				return d
			}
			return v
		},
		"int64": func(n int) int64 { return int64(n) },
		"join": func(sep string, list []any) string {
			return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", sep), "[]")
		},
		"add": func(ns ...int) (sum int) {
			for _, n := range ns {
				sum += n
			}
			return sum
		},
		"dict": func(pairs ...any) map[string]any {
			d := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				d[pairs[i].(string)] = pairs[i+1]
			}
			return d
		},
	})
	files, err := filepath.Glob(filepath.Join(chartDir, "templates", "*"))
	if err != nil || len(files) < 6 {
		t.Fatalf("templates %q, %v", files, err)
	}
	if _, err := all.ParseFiles(files...); err != nil {
		t.Fatal(err)
	}
	own := readYAML(t, "values.yaml")
	var over map[string]any
	if err := yaml.Unmarshal([]byte(values), &over); err != nil {
		t.Fatal(err)
	}
	data := map[string]any{
		"Values":  merged(own, over),
		"Release": map[string]any{"Name": release, "Namespace": "llm", "Service": "Helm"},
		"Chart":   map[string]any{"AppVersion": readYAML(t, "Chart.yaml")["appVersion"]},
	}
	var b bytes.Buffer
	for _, f := range files {
		if filepath.Ext(f) != ".yaml" {
			continue
		}
		b.WriteString("\n---\n")
		if err := all.ExecuteTemplate(&b, filepath.Base(f), data); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// merged puts over's values into those of own, as Helm does.
func merged(own, over map[string]any) map[string]any {
	out := maps.Clone(own)
	for k, v := range over {
		mine, both := own[k].(map[string]any)
		theirs, too := v.(map[string]any)
		if both && too {
			v = merged(mine, theirs)
		}
		out[k] = v
	}
	return out
}

// The chart makes manifests whose router takes its command line.
func TestChart(t *testing.T) {
	const rights = "ServiceAccount Role RoleBinding "
	for _, tc := range []struct {
		name, release, values string
		kinds                 string // of all but the workload, sorted by file
		check                 func(c config) bool
	}{
		{"as it is", "x", ``, "PodDisruptionBudget " + rights + "Service Service", func(c config) bool {
			return c.Sources.Kubernetes.Enabled && c.Sources.Kubernetes.Namespace == "llm" && c.Sources.Kubernetes.Port == 8000 && c.Policy.Name == "least_work"
		}},
		{"named workers", "loadstar", `{discovery: {enabled: false}, workers: {urls: ["http://a:1", "http://b:2"]}, policy: power_of_two, podDisruptionBudget: {enabled: false}}`, "ServiceAccount Service Service", func(c config) bool {
			return slices.Equal(c.Workers.URLs, []string{"http://a:1", "http://b:2"}) && c.Policy.Name == "power_of_two"
		}},
		{"every namespace", "x", `{discovery: {namespace: "*"}}`, "PodDisruptionBudget ServiceAccount ClusterRole ClusterRoleBinding Service Service", func(c config) bool {
			return c.Sources.Kubernetes.Namespace == ""
		}},
		{"two phases", "x", `{discovery: {prefillSelector: {role: p}, decodeSelector: {role: d, app: vllm}}}`, "PodDisruptionBudget " + rights + "Service Service", func(c config) bool {
			return c.PD.Enabled
		}},
		{"keys and TLS", "x", `{secrets: {clientKeys: a, adminKey: b, workerKey: c, tls: d}}`, "PodDisruptionBudget " + rights + "Service Service", func(c config) bool {
			return c.TLS.KeyPath == "/etc/loadstar/tls/tls.key" && c.Access.ClientKeysFile == "/etc/loadstar/clients/keys"
		}},
		{"a NATS server in each", "x", `{peers: {embedded: true, group: g}, secrets: {peers: s}}`, "PodDisruptionBudget " + rights + "Service Service Service", func(c config) bool {
			own := c.Peers.Own
			return c.Peers.Group == "g" && own.Listen == listenConfig{"0.0.0.0", 6222} && own.User == "loadstar" && own.Password == "from-PEERS_PASSWORD" &&
				slices.Equal(own.Routes, []server.Route{{Host: "x-loadstar-peers.llm.svc", Port: 6222}})
		}},
		{"everything else", "a-release", `{peers: {nats: ["nats://a:1", "nats://b:1"]}, extraArgs: ["--heartbeat-secs=15"], env: [{name: LOADSTAR_ACCESS_LOG, value: "true"}], shutdown: {delaySeconds: 5, graceSeconds: 1000},
			serviceAccount: {name: own, create: false}, monitoring: {serviceMonitor: true, vmServiceScrape: true, labels: {a: b}}, imagePullSecrets: [{name: s}], podAnnotations: {a: b}, nodeSelector: {a: b}, tolerations: [{key: k}],
			affinity: {nodeAffinity: {}}, service: {annotations: {a: b}}, image: {tag: v1}}`, "ServiceMonitor VMServiceScrape PodDisruptionBudget Role RoleBinding Service Service", func(c config) bool {
			return len(c.Peers.Servers) == 2 && c.Timeouts.Heartbeat.Seconds() == 15 && c.Shutdown.Grace.Seconds() == 1000
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := render(t, tc.release, tc.values)
			all := objects(t, "the chart", text)
			c := checkPod(t, deployed(t, all))
			if !tc.check(c) {
				t.Errorf("settings %+v", c)
			}
			var kinds []string
			for _, o := range all {
				if o.Kind != "Deployment" {
					kinds = append(kinds, o.Kind)
				}
				if !strings.HasPrefix(o.Metadata.Name, tc.release) {
					t.Errorf("%s is called %s, want the release's name first", o.Kind, o.Metadata.Name)
				}
			}
			if got := strings.Join(kinds, " "); got != tc.kinds {
				t.Errorf("kinds\n%s, want\n%s\n%s", got, tc.kinds, text)
			}
		})
	}
}

// Routers with a NATS server each find each other by a Service of all their pods, ready or
// not, whose name they ask for.
func TestChartPeers(t *testing.T) {
	text := string(render(t, "x", `{peers: {embedded: true}, secrets: {peers: s}}`))
	_, service, ok := strings.Cut(text, "name: x-loadstar-peers\n")
	if !ok {
		t.Fatalf("no Service of that name in %s", text)
	}
	service, _, _ = strings.Cut(service, "\n---")
	for _, want := range []string{"clusterIP: None", "publishNotReadyAddresses: true", "app.kubernetes.io/instance: x", "port: 6222"} {
		if !strings.Contains(service, want) {
			t.Errorf("no %q in %s", want, service)
		}
	}
}

// The schema knows each value that the chart has, and no others.
func TestChartSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Properties           map[string]json.RawMessage
		AdditionalProperties any
		Enum                 []string
	}
	var compare func(path string, raw json.RawMessage, v any)
	compare = func(path string, raw json.RawMessage, v any) {
		var s schema
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		values, is := v.(map[string]any)
		if !is || s.Properties == nil {
			return
		}
		if s.AdditionalProperties != false {
			t.Errorf("%s takes values that it doesn't know", path)
		}
		delete(s.Properties, "global") // Helm adds it
		if got, want := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(values)); !slices.Equal(got, want) {
			t.Errorf("%s: %q in the schema, %q in values.yaml", path, got, want)
		}
		for k, raw := range s.Properties {
			compare(path+"."+k, raw, values[k])
		}
	}
	compare("values", text, readYAML(t, "values.yaml"))

	var top struct{ Properties struct{ Policy schema } }
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	if len(top.Properties.Policy.Enum) < 8 {
		t.Errorf("policies %q, want all", top.Properties.Policy.Enum)
	}
	for _, p := range top.Properties.Policy.Enum {
		if faults := valueFaults("policy", p); len(faults) > 0 {
			t.Errorf("policy %s: %v", p, faults)
		}
	}
}
