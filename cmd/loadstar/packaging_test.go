package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// object is what is read of a manifest.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name, Namespace string }
	Spec       struct {
		Selector any
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
	}
}

type podSpec struct {
	ServiceAccountName            string `yaml:"serviceAccountName"`
	TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
	Containers                    []struct {
		Args []string
		Env  []struct {
			Name, Value string
			ValueFrom   any `yaml:"valueFrom"`
		}
		Ports []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		ReadinessProbe probe `yaml:"readinessProbe"`
		LivenessProbe  probe `yaml:"livenessProbe"`
	}
}

type probe struct {
	HTTPGet struct {
		Path, Port, Scheme string
	} `yaml:"httpGet"`
}

// objects are the manifests in text.
func objects(t *testing.T, name string, text []byte) []object {
	t.Helper()
	var all []object
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		switch err := d.Decode(&o); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("%s: %v\n%s", name, err, text)
		case o.Kind != "":
			if o.APIVersion == "" {
				t.Errorf("%s: a %s without apiVersion", name, o.Kind)
			}
			all = append(all, o)
		}
	}
}

// deployed gives the one Deployment among objects.
func deployed(t *testing.T, all []object) object {
	t.Helper()
	i := slices.IndexFunc(all, func(o object) bool { return o.Kind == "Deployment" })
	if i < 0 {
		t.Fatalf("no Deployment in %+v", all)
	}
	return all[i]
}

// checkPod checks that a Deployment's router takes its arguments and variables, is
// asked where it listens, and has the time that it takes to end.
func checkPod(t *testing.T, o object) config {
	t.Helper()
	pod := o.Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.ServiceAccountName == "" {
		t.Fatalf("pod %+v, want one container and a service account", pod)
	}
	of := pod.Containers[0]
	args := slices.Clone(of.Args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$(NAMESPACE)", o.Metadata.Namespace)
	}
	vars := map[string]string{}
	for _, e := range of.Env {
		vars[e.Name] = os.Expand(strings.NewReplacer("$(", "${", ")", "}").Replace(e.Value), func(name string) string { return vars[name] })
		if e.ValueFrom != nil {
			vars[e.Name] = "from-" + e.Name
		}
	}
	c, err := parse(args, variables(vars))
	if err != nil {
		t.Fatalf("the arguments %q and variables %q: %v", of.Args, vars, err)
	}
	for _, e := range of.Env {
		if name := e.Name; strings.HasPrefix(name, "LOADSTAR_") && !isVariable(name) {
			t.Errorf("%s is no variable", name)
		}
	}
	ports := map[string]int{}
	for _, p := range of.Ports {
		ports[p.Name] = p.ContainerPort
	}
	want := map[string]int{"http": c.Listen.Port, "metrics": c.Metrics.Listen.Port}
	if own := c.Peers.Own; own.Enabled() {
		want["peers"] = own.Listen.Port
	}
	if !maps.Equal(ports, want) {
		t.Errorf("ports %v, want %v", ports, want)
	}
	scheme := "HTTP"
	if c.TLS.CertPath != "" {
		scheme = "HTTPS"
	}
	for path, p := range map[string]probe{"/readiness": of.ReadinessProbe, "/liveness": of.LivenessProbe} {
		if probe := p.HTTPGet; probe.Path != path || probe.Port != "http" || probe.Scheme != scheme && (probe.Scheme != "" || scheme != "HTTP") {
			t.Errorf("probe %+v, want %s by %s", probe, path, scheme)
		}
	}
	if ends := int((c.Shutdown.Delay + c.Shutdown.Grace).Seconds()); pod.TerminationGracePeriodSeconds < ends+15 {
		t.Errorf("%d s to terminate, want at least %d and some more", pod.TerminationGracePeriodSeconds, ends)
	}
	if c.Shutdown.Delay == 0 {
		t.Error("no delay of shutdown, want time for the Service to forget the pod")
	}
	if c.Listen.Host != "0.0.0.0" || c.Metrics.Listen.Host != "0.0.0.0" {
		t.Errorf("listens at %s and %s, want every address", c.Listen.Host, c.Metrics.Listen.Host)
	}
	return c
}

// isVariable reports whether a variable sets a flag.
func isVariable(name string) bool {
	return slices.ContainsFunc(everyOption(), func(o *option) bool { return envName(o.name) == name })
}

// The manifests are whole, and their router takes its command line.
func TestManifests(t *testing.T) {
	const dir = "packaging/kubernetes"
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var k struct{ Resources []string }
	if err := yaml.Unmarshal(read("kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	there, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(there) != len(k.Resources)+1 {
		t.Errorf("%q are there, %v, want those of the kustomization: %q", there, err, k.Resources)
	}
	var all []object
	for _, name := range k.Resources {
		all = append(all, objects(t, name, read(name))...)
	}
	kinds := map[string]int{}
	for _, o := range all {
		kinds[o.Kind]++
		if o.Metadata.Namespace != "default" || !strings.HasPrefix(o.Metadata.Name, "loadstar") {
			t.Errorf("%s %+v, want it in default and called after the router", o.Kind, o.Metadata)
		}
	}
	want := map[string]int{"Deployment": 1, "Service": 2, "PodDisruptionBudget": 1, "ServiceAccount": 1, "Role": 1, "RoleBinding": 1}
	if !maps.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	c := checkPod(t, deployed(t, all))
	if !c.Sources.Kubernetes.Enabled || c.Sources.Kubernetes.Namespace != "default" {
		t.Errorf("discovery %+v, want it in the pod's namespace, which is all that the Role allows", c.Sources.Kubernetes)
	}
	for _, name := range []string{"monitoring/servicemonitor.yaml", "monitoring/vmservicescrape.yaml"} {
		if got := objects(t, name, read(name)); len(got) != 1 || !strings.Contains(string(read(name)), "port: metrics") {
			t.Errorf("%s: %+v, want one object that scrapes the port called metrics", name, got)
		}
	}
}

// Systemd's unit starts a command line that is taken, with the variables beside it,
// and waits as long as the router takes to end.
func TestUnit(t *testing.T) {
	unit := keyValues(t, "packaging/systemd/loadstar.service")
	env := map[string]string{}
	for name, v := range keyValues(t, "packaging/systemd/loadstar.env") {
		if env[name] = v[0]; !isVariable(name) {
			t.Errorf("%s is no variable", name)
		}
	}
	if len(unit["ExecStart"]) != 1 || len(env) < 3 {
		t.Fatalf("ExecStart %q, variables %q, so the files were not understood", unit["ExecStart"], env)
	}
	words := strings.Fields(unit["ExecStart"][0])
	c, err := parse(words[1:], variables(env))
	if err != nil {
		t.Fatal(err)
	}
	if got := filepath.Base(c.Sources.File); got != "workers.yaml" {
		t.Errorf("workers from %q, want workers.yaml", got)
	}
	for _, name := range []string{"workers.yaml", "loadstar.env"} {
		if _, err := os.Stat("packaging/systemd/" + name); err != nil {
			t.Error(err)
		}
	}
	var stop int
	if _, err := fmt.Sscanf(unit["TimeoutStopSec"][0], "%ds", &stop); err != nil || stop < int((c.Shutdown.Delay+c.Shutdown.Grace).Seconds())+10 {
		t.Errorf("%d s to stop, %v, want the grace period and some more", stop, err)
	}
	if unit["Type"][0] != "notify" { // TestServiceManager: the router does its part
		t.Errorf("type %s, want notify", unit["Type"])
	}
}

// keyValues reads lines of the form KEY=VALUE, commented ones of variables included.
func keyValues(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^#?([A-Za-z_]+)=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = append(all[m[1]], m[2])
	}
	return all
}

// The image's variables are known, and its health check is a command of the binary.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("packaging/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ENV (\w+)=(.+)$`).FindAllStringSubmatch(string(text), -1) {
		if env[m[1]] = m[2]; !isVariable(m[1]) {
			t.Errorf("%s is no variable", m[1])
		}
	}
	c, err := parse(nil, variables(env))
	if err != nil || len(env) == 0 {
		t.Fatalf("variables %q: %v", env, err)
	}
	m := regexp.MustCompile(`(?m)^HEALTHCHECK .* CMD (\[.+\])$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no health check")
	}
	var words []string
	if err := json.Unmarshal(m[1], &words); err != nil {
		t.Fatal(err)
	}
	checked, err := parse(words[1:], nil)
	if want := fmt.Sprintf("http://127.0.0.1:%d/health", c.Metrics.Listen.Port); err != nil || checked.Check.URL != want {
		t.Errorf("checks %q, %v, want %s", checked.Check.URL, err, want)
	}
	for _, want := range []string{"CGO_ENABLED=0", "-X main.version=", "\nUSER 65532:65532\n", fmt.Sprintf("\nEXPOSE %d\n", c.Listen.Port), "\nENTRYPOINT [\"" + words[0] + "\"]"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q", want)
		}
	}
}

// The files that a release is made of are there, or made by the Makefile.
func TestReleaseFiles(t *testing.T) {
	text, err := os.ReadFile("packaging/goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	sources := regexp.MustCompile(`(?m)^\s+- src: (\S+)$`).FindAllStringSubmatch(string(text), -1)
	for _, m := range sources {
		if strings.HasPrefix(m[1], "bin/") {
			if name := strings.TrimSuffix(m[1], "*"); !strings.Contains(string(makefile), "> "+name) {
				t.Errorf("%s is not made by the Makefile", m[1])
			}
			continue
		}
		if found, err := filepath.Glob(filepath.Join(root, m[1])); err != nil || len(found) == 0 {
			t.Errorf("%s: not there, %v", m[1], err)
		}
	}
	if len(sources) < 8 || !strings.Contains(string(text), "-X main.version=") {
		t.Errorf("%d files, so the configuration was not understood", len(sources))
	}
}
