package kubernetes

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

func joined(has map[string]discovery.Worker) string {
	var all []string
	for _, url := range slices.Sorted(maps.Keys(has)) {
		all = append(all, strings.TrimPrefix(url, "http://"))
	}
	return strings.Join(all, " ")
}

// TestLife: what befalls a pod, each time in one event, with lists that come as lists and such that
// come as watches.
func TestLife(t *testing.T) {
	for _, streams := range []bool{false, true} {
		a := newAPIServer(t)
		a.streams = streams
		one := newPod("one", "10.0.0.1", "app=vllm")
		a.put(one, newPod("other", "10.0.0.9", "app=web"), newPod("both", "10.0.0.2", "app=vllm", "tier=gpu"))
		r := start(a, Options{Selector: "app=vllm", Namespace: "prod"})
		r.want("at first", "10.0.0.1:8000 10.0.0.2:8000")
		r.wait("a watch", func() bool { return r.openWatches() > 0 })
		for _, c := range []struct {
			name string
			pod  object
			want string // of pod one
		}{
			{"not ready", one.with(notReady), ""},
			{"ready again", one, "10.0.0.1:8000 "},
			{"on its way out", one.with(func(o object) { o.meta()["deletionTimestamp"] = "2026-11-30T00:00:00Z" }), ""},
			{"as before", one, "10.0.0.1:8000 "},
			{"without an address", one.with(func(o object) { o.status()["podIP"], o.status()["podIPs"] = nil, nil }), ""},
			{"another address", one.with(func(o object) { o.status()["podIP"] = "10.0.0.3" }), "+"},
			{"evicted", one.with(func(o object) { o.status()["phase"] = "Failed" }), ""},
			{"pending", one.with(func(o object) { o.status()["phase"] = "Pending" }), ""},
			{"no conditions", one.with(func(o object) { o.status()["conditions"] = nil }), ""},
			{"the second family", one.with(func(o object) {
				o.status()["podIP"], o.status()["podIPs"] = "", []any{map[string]any{"ip": "FD00::0001"}, map[string]any{"ip": "10.0.0.1"}}
			}), "v6"},
			{"another label", one.with(func(o object) { o.meta()["labels"] = map[string]any{"app": "web"} }), ""},
			{"its label again", one, "10.0.0.1:8000 "},
		} {
			a.put(c.pod)
			want := c.want + "10.0.0.2:8000"
			switch c.want {
			case "+":
				want = "10.0.0.2:8000 10.0.0.3:8000"
			case "v6":
				want = "10.0.0.2:8000 [fd00::1]:8000"
			}
			r.want(c.name, want)
		}
		a.remove(one)
		r.want("deleted", "10.0.0.2:8000")
		for _, u := range a.requests {
			if !strings.HasPrefix(u, "/api/v1/namespaces/prod/pods?") || !strings.Contains(u, "labelSelector=app%3Dvllm") {
				t.Errorf("the server was asked %s, want pods of one namespace by label", u)
			}
		}
		if text := r.log.String(); text != "" {
			t.Errorf("logged:\n%s", text)
		}
		r.rec.Close()
	}
}

// TestWhatIsSaid: what a worker is known by.
func TestWhatIsSaid(t *testing.T) {
	a := newAPIServer(t)
	a.put(newPod("p", "10.0.0.1", "r=p").with(func(o object) { o.meta()["annotations"] = object{bootstrapAnnotation: "9001"} }),
		newPod("q", "10.0.0.2", "r=p").with(func(o object) { o.meta()["annotations"] = object{bootstrapAnnotation: "70000"} }),
		newPod("d", "10.0.0.3", "r=d").with(func(o object) { o.meta()["annotations"] = object{bootstrapAnnotation: "9001"} }))
	r := start(a, Options{Selector: "r=p", Roles: actors.RolesOf(actors.Prefill), Bootstrap: 8998}, Options{Selector: "r=d", Roles: actors.RolesOf(actors.Decode)})
	r.want("all", "10.0.0.1:8000 10.0.0.2:8000 10.0.0.3:8000")
	for url, want := range map[string]discovery.Worker{
		"http://10.0.0.1:8000": {Roles: actors.RolesOf(actors.Prefill), Bootstrap: 9001, Process: "uid-p10.0.0.1", Labels: map[string]string{"namespace": "prod", "pod": "p"}, Source: "kubernetes/0"},
		"http://10.0.0.2:8000": {Roles: actors.RolesOf(actors.Prefill), Bootstrap: 8998, Process: "uid-q10.0.0.2", Labels: map[string]string{"namespace": "prod", "pod": "q"}, Source: "kubernetes/0"},
		"http://10.0.0.3:8000": {Roles: actors.RolesOf(actors.Decode), Process: "uid-d10.0.0.3", Labels: map[string]string{"namespace": "prod", "pod": "d"}, Source: "kubernetes/1"},
	} {
		got := r.fleet.has[url]
		if got.Roles != want.Roles || got.Bootstrap != want.Bootstrap || got.Process != want.Process || got.Source != want.Source ||
			!maps.Equal(got.Labels, want.Labels) || got.Priority != discovery.DefaultPriority || got.Cost != 1 {
			t.Errorf("%s is known as %+v, want %+v", url, got, want)
		}
	}
}

// TestRoleChanges: a pod that has both phases' labels prefills; without the one it
// decodes, and is never gone.
func TestRoleChanges(t *testing.T) {
	a := newAPIServer(t)
	both := newPod("x", "10.0.0.1", "p=1", "d=1")
	a.put(both)
	r := start(a, Options{Selector: "p=1", Roles: actors.RolesOf(actors.Prefill)}, Options{Selector: "d=1", Roles: actors.RolesOf(actors.Decode)})
	role := func(want actors.Role) func() bool {
		return func() bool {
			r.fleet.mu.Lock()
			defer r.fleet.mu.Unlock()
			return r.fleet.has["http://10.0.0.1:8000"].Roles == actors.RolesOf(want)
		}
	}
	r.wait("both sources", func() bool {
		v := r.rec.View()
		return v[0].Workers == 1 && v[1].Workers == 1 && r.openWatches() == 2
	})
	a.put(both.with(func(o object) { o.meta()["labels"] = object{"d": "1"} }))
	r.wait("a decode worker", role(actors.Decode))
	a.put(both)
	r.wait("a second claim", func() bool { return r.rec.View()[0].Workers == 1 })
	a.put(both.with(func(o object) { o.meta()["labels"] = object{"p": "1"} }))
	r.wait("a prefill worker", role(actors.Prefill))
}

// TestMissedDelete: pods that went while the watch was down, which the server has
// forgotten, are gone after the new list. (Workers stayed for 22 hours elsewhere.)
func TestMissedDelete(t *testing.T) {
	for _, streams := range []bool{false, true} {
		a := newAPIServer(t)
		a.streams = streams
		one, two := newPod("one", "10.0.0.1"), newPod("two", "10.0.0.2")
		a.put(one, two)
		r := start(a, Options{})
		r.want("at first", "10.0.0.1:8000 10.0.0.2:8000")
		r.wait("a watch", func() bool { return r.openWatches() == 1 })
		a.put(newPod("four", "10.0.0.4"))
		r.want("seen by the watch, so that it is resumed", "10.0.0.1:8000 10.0.0.2:8000 10.0.0.4:8000")
		a.change(func() { a.stall = make(chan struct{}) })
		a.dropWatches()
		a.remove(one)
		a.put(newPod("three", "10.0.0.3"))
		a.forget()
		a.change(func() { close(a.stall); a.stall = nil })
		r.want("after 410 Gone", "10.0.0.2:8000 10.0.0.3:8000 10.0.0.4:8000")
		if text := r.log.String(); strings.Contains(text, "410") || strings.Contains(text, "too old") {
			t.Errorf("logged:\n%s", text)
		}
		r.rec.Close()
	}
}

// TestDroppedWatch: a watch that ends is resumed, and what happened meanwhile comes.
func TestDroppedWatch(t *testing.T) {
	a := newAPIServer(t)
	one := newPod("one", "10.0.0.1")
	a.put(one)
	r := start(a, Options{})
	r.want("at first", "10.0.0.1:8000")
	for range 3 {
		r.wait("a watch", func() bool { return r.openWatches() > 0 })
		a.dropWatches()
		a.put(one.with(notReady))
		r.want("not ready meanwhile", "")
		a.put(one)
		r.want("ready", "10.0.0.1:8000")
	}
}

// TestFaultyServer: errors leave the workers, are told once in words for people, and
// pass.
func TestFaultyServer(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		want   string
	}{
		{"internal error", 500, "pods of all namespaces are not known: "},
		{"forbidden", 403, "grant get, list and watch, or give --service-discovery-namespace"},
		{"unauthorized", 401, "does not accept the credentials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAPIServer(t)
			a.put(newPod("one", "10.0.0.1"))
			r := start(a, Options{})
			r.want("at first", "10.0.0.1:8000")
			r.wait("a watch", func() bool { return r.openWatches() == 1 })
			a.change(func() {
				a.fails = slices.Repeat([]int{c.status}, 12)
				a.oldest = a.version + 2 // a watch would not be resumed
			})
			a.dropWatches()
			r.wait("the errors", func() bool { return r.rec.View()[0].Errors >= 4 })
			if got := r.fleet.urls(); got != "10.0.0.1:8000" {
				t.Errorf("meanwhile workers %q, want one still", got)
			}
			a.put(newPod("two", "10.0.0.2"))
			r.want("afterwards", "10.0.0.1:8000 10.0.0.2:8000")
			if n := strings.Count(r.log.String(), c.want); n != 1 {
				t.Errorf("%d lines say %q, want 1:\n%s", n, c.want, r.log)
			}
		})
	}
}

// TestUnreachable: a server that isn't there at first is found once it is.
func TestNotThereAtFirst(t *testing.T) {
	a := newAPIServer(t)
	a.put(newPod("one", "10.0.0.1"))
	a.change(func() { a.stall = make(chan struct{}) })
	r := start(a, Options{})
	r.wait("a request", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.requests) > 0 })
	a.change(func() { close(a.stall); a.stall = nil })
	r.want("once it answers", "10.0.0.1:8000")
	a.CloseClientConnections()
	a.put(newPod("two", "10.0.0.2"))
	r.want("after a cut", "10.0.0.1:8000 10.0.0.2:8000")
}

// TestSilentWatch: a watch that says nothing any more, and that its server never ends,
// is given up.
func TestSilentWatch(t *testing.T) {
	a := newAPIServer(t)
	a.deaf = true
	one := newPod("one", "10.0.0.1")
	a.put(one)
	r := start(a, Options{WatchFor: time.Second, grace: time.Millisecond})
	r.want("at first", "10.0.0.1:8000")
	r.wait("a watch", func() bool { return r.openWatches() == 1 })
	a.remove(one) // which the watch doesn't tell
	a.change(func() { a.deaf = false; a.oldest = a.version + 1 })
	a.put(newPod("two", "10.0.0.2"))
	r.want("later", "10.0.0.2:8000")
	r.wait("an error", func() bool { return r.rec.View()[0].Errors > 0 })
	r.wait("an open watch", func() bool { return r.openWatches() == 1 })
}

// TestAddressReused: a pod that gets the address of another is another worker there.
func TestAddressReused(t *testing.T) {
	a := newAPIServer(t)
	old := newPod("old", "10.0.0.1")
	a.put(old)
	r := start(a, Options{})
	r.want("at first", "10.0.0.1:8000")
	a.put(old.with(func(o object) { o.status()["phase"] = "Succeeded" }), newPod("new", "10.0.0.1"))
	r.wait("the new pod", func() bool {
		r.fleet.mu.Lock()
		defer r.fleet.mu.Unlock()
		return r.fleet.has["http://10.0.0.1:8000"].Labels["pod"] == "new"
	})
}
