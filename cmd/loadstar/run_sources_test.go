package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// shownSources lists the workers that are healthy, each as URL=SOURCE, in order.
func shownSources(t *testing.T, addr string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/workers")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var view struct {
		Workers []struct {
			URL, Source string
			Healthy     bool `json:"is_healthy"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&view); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, w := range view.Workers {
		if w.Healthy {
			all = append(all, w.URL+"="+w.Source)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func healthyWorker(t *testing.T) string {
	w := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(w.Close)
	return w.URL
}

// TestWorkersFile: a file is read again when what its name leads to changes, as a
// ConfigMap's does, and at once on SIGHUP; a faulty one changes nothing and is counted.
func TestWorkersFile(t *testing.T) {
	a, b, named := healthyWorker(t), healthyWorker(t), healthyWorker(t)
	f := files{t, t.TempDir()}
	f.write("one", []byte("- url: "+a+"\n"))
	f.write("two", []byte(`[{"url":"`+b+`"},{"url":"`+named+`"}]`))
	f.write("faulty", []byte("- url: "+a+"\n- uri: "+b+"\n"))
	lead := func(to string) {
		t.Helper()
		if err := os.Symlink(f.path(to), f.path("new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(f.path("new"), f.path("workers")); err != nil {
			t.Fatal(err)
		}
	}
	lead("one")
	cmd, out := start(t, `"listening"`, "--port", "0", "--prometheus-port", "0", "--log-format", "json",
		"--worker-startup-check-interval", "0.05", "--workers-file", f.path("workers"), "--worker-urls", named)
	addr := listening(t, out)
	both := func(url string) string {
		all := []string{url + "=file", named + "=flags"}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	eventually(t, "the first file", func() bool { return shownSources(t, addr) == both(a) })
	lead("faulty")
	hup(t, cmd.Process)
	eventually(t, "the error", func() bool {
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return strings.Contains(string(text), "loadstar_discovery_errors_total{source=\"file\"} 1\n")
	})
	if got := shownSources(t, addr); got != both(a) {
		t.Errorf("with a faulty file workers %s, want %s", got, both(a))
	}
	lead("two") // seen by itself
	eventually(t, "the second file", func() bool { return shownSources(t, addr) == both(b) })
}

// A file that is faulty from the start keeps the router from starting, and so does a
// cluster that nobody knows the way to.
func TestSourcesThatCannotBe(t *testing.T) {
	f := files{t, t.TempDir()}
	f.write("faulty", []byte("- url: a\n"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--workers-file", f.path("faulty")}, fmt.Sprintf(`cannot use the workers of --workers-file %q: line 1: "a" has no scheme`, f.path("faulty"))},
		{[]string{"--workers-file", f.path("none")}, fmt.Sprintf("cannot use the workers of --workers-file %q: no such file", f.path("none"))},
		{[]string{"--service-discovery", "--selector", "a=b", "--kubeconfig", f.path("none")}, "--service-discovery: no way to the Kubernetes API server is known"},
	} {
		conf, err := parse(append(c.args, "--port", "0", "--prometheus-port", "0"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := route(t.Context(), conf); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one that begins with %q", c.args, err, c.want)
		}
	}
}

// TestKubernetes: pods are found by the API server of a kubeconfig, and of two phases
// each by its labels.
func TestKubernetes(t *testing.T) {
	worker, err := url.Parse(healthyWorker(t))
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		q := r.URL.Query()
		switch {
		case r.Header.Get("Authorization") != "Bearer cluster-token":
			w.WriteHeader(http.StatusUnauthorized)
		case q.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case q.Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/api/v1/namespaces/prod/pods" && q.Get("labelSelector") == "role=p":
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","namespace":"prod","uid":"u"},
				"status":{"phase":"Running","podIP":%q,"conditions":[{"type":"Ready","status":"True"}]}}]}`, worker.Hostname())
		default:
			io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`)
		}
	}))
	t.Cleanup(api.Close) // when the router has ended, whose watches it would wait for
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	f := files{t, t.TempDir()}
	kubeconfig := f.write("kubeconfig", []byte(fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: k, cluster: {server: %q, certificate-authority-data: %s}}],
		users: [{name: u, user: {token: cluster-token}}], contexts: [{name: c, context: {cluster: k, user: u}}]}`, api.URL, base64.StdEncoding.EncodeToString(authority))))
	addr := running(t, io.Discard, "--vllm-pd-disaggregation", "--service-discovery", "--prefill-selector", "role=p", "--decode-selector", "role=d",
		"--service-discovery-namespace", "prod", "--service-discovery-port", worker.Port(), "--kubeconfig", kubeconfig, "--worker-startup-check-interval", "0.05")
	want := worker.String() + "=kubernetes/prefill"
	eventually(t, "the pod", func() bool { return shownSources(t, addr) == want })
}
