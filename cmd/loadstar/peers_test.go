package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors/peers"
	natsd "loadstar/bench/nats"
)

// startNATS starts a server at an address.
func startNATS(t *testing.T, address string) *natsd.Server {
	t.Helper()
	s, err := natsd.Start(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// peering starts a router that tells others, and gives its address.
func peering(t *testing.T, url string, more ...string) (kill func(), addr string) {
	t.Helper()
	args := []string{"--port", "0", "--prometheus-port", "0", "--log-format", "json", "--worker-startup-check-interval", "1", "--policy", "least_work", "--peers-nats", url}
	cmd, out := start(t, `"listening"`, append(args, more...)...)
	addr = listening(t, out)
	waitReady(t, addr)
	return func() { _ = cmd.Process.Kill() }, addr
}

// peersView is what GET /peers says.
type peersView struct {
	Name      string
	Connected bool
	Peers     []peerView
}

type peerView struct {
	Name     string
	Requests int
}

func peersOfRouter(t *testing.T, addr string) (v peersView) {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/peers")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || resp.StatusCode != 200 {
		t.Fatalf("GET /peers: %d, %v", resp.StatusCode, err)
	}
	return v
}

// seriesOf is the value of a series.
func seriesOf(t *testing.T, addr, series string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return value
		}
	}
	return ""
}

// Routers in processes of their own hear of each other's requests; one that is killed
// leaves nothing behind; without NATS each goes on alone, and with it again they hear
// each other as before.
func TestSeveralRouters(t *testing.T) {
	nats := startNATS(t, "127.0.0.1:0")
	_, urls := simulated(t, 2)
	names := []string{"a", "b", "c"}
	kill, addrs := make([]func(), 3), make([]string, 3)
	for i, name := range names {
		kill[i], addrs[i] = peering(t, nats.URL(), append([]string{"--peers-name", name, "--worker-urls"}, urls...)...)
	}
	var ends []func()
	open := func(addr string, n int) {
		t.Helper()
		for range n {
			_, end := chat(t, addr, `{"stream":true,"messages":[{"role":"user","content":"x"}],"max_tokens":100000}`)
			ends = append(ends, end)
		}
	}
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	sees := func(addr string, load, foreign int) {
		t.Helper()
		waitLoads(t, addr, fmt.Sprintf("%d requests here and %d elsewhere", load, foreign), func(l, f int) bool { return l == load && f == foreign })
	}
	open(addrs[0], 6)
	open(addrs[1], 3)
	sees(addrs[0], 6, 3)
	sees(addrs[1], 3, 6)
	sees(addrs[2], 0, 9)
	// One that a busy machine has silenced for a moment is heard of again.
	eventually(t, "both others in GET /peers", func() bool {
		v := peersOfRouter(t, addrs[2])
		slices.SortFunc(v.Peers, func(a, b peerView) int { return strings.Compare(a.Name, b.Name) })
		return v.Connected && v.Name == "c" && len(v.Peers) == 2 && v.Peers[0].Name == "a" && v.Peers[0].Requests == 6 && v.Peers[1].Requests == 3
	})
	eventually(t, "loadstar_peers of 2", func() bool { return seriesOf(t, addrs[2], "loadstar_peers") == "2" })

	kill[0]()
	killed := time.Now()
	sees(addrs[2], 0, 3)
	t.Logf("the load of a router that was killed was gone after %v", time.Since(killed))
	sees(addrs[1], 3, 0)

	address := nats.Addr()
	nats.Close()
	sees(addrs[1], 3, 0)
	sees(addrs[2], 0, 0)
	answer(t, addrs[2], plainChat)
	if peersOfRouter(t, addrs[2]).Connected || seriesOf(t, addrs[2], "loadstar_peers_connected") != "0" {
		t.Error("without NATS a router is connected")
	}
	startNATS(t, address)
	sees(addrs[2], 0, 3)
	if got := seriesOf(t, addrs[2], `loadstar_peer_dropped_total{reason="unreadable"}`); got != "0" {
		t.Errorf("%q messages unreadable, want 0", got)
	}
}

// A process that takes over and the one before are counted once, by each other and by
// other routers, whatever they are called.
func TestTakeoverAmongPeers(t *testing.T) {
	nats := startNATS(t, "127.0.0.1:0")
	_, urls := simulated(t, 2)
	for _, name := range [][]string{nil, {"--peers-name", "stays"}} {
		t.Run(fmt.Sprint(name), func(t *testing.T) {
			t.Parallel()
			group := "g" + fmt.Sprint(len(name))
			_, other := peering(t, nats.URL(), append([]string{"--peers-group", group, "--worker-urls"}, urls...)...)
			at := door(t)
			args := append(append([]string{"--peers-group", group, "--takeover", at, "--shutdown-grace-period-secs", "30"}, name...), "--worker-urls")
			_, before := peering(t, nats.URL(), append(args, urls...)...)
			var ends []func()
			for range 4 {
				_, end := chat(t, before, `{"stream":true,"messages":[{"role":"user","content":"x"}],"max_tokens":100000}`)
				ends = append(ends, end)
			}
			waitLoads(t, other, "4 elsewhere", func(l, f int) bool { return l == 0 && f == 4 })
			_, now := peering(t, nats.URL(), append(args, urls...)...)
			for _, addr := range []string{now, other} {
				// For longer than what anybody said before can count.
				since := time.Now()
				waitLoads(t, addr, "4 elsewhere, steadily", func(l, f int) bool {
					if l != 0 || f != 4 {
						since = time.Now()
					}
					return time.Since(since) > 1200*time.Millisecond
				})
			}
			for _, end := range ends {
				end()
			}
			waitLoads(t, other, "nothing", func(l, f int) bool { return l == 0 && f == 0 })
			waitLoads(t, now, "nothing", func(l, f int) bool { return l == 0 && f == 0 })
		})
	}
}

// Flags of several routers make what they say, and are nothing without the first.
func TestPeersFlags(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		want       peersConfig
		fault      string
	}{
		{"none", "", peersConfig{Group: "loadstar"}, ""},
		{"servers in both forms", "--peers-nats nats://a:1,tls://b:2 nats://c", peersConfig{Group: "loadstar", Servers: []string{"nats://a:1", "tls://b:2", "nats://c"}}, ""},
		{"everything", "--peers-nats nats://a --peers-group x.y --peers-name me --peers-nats-creds f", peersConfig{Servers: []string{"nats://a"}, CredsFile: "f", Group: "x.y", Name: "me"}, ""},
		{"a group alone", "--peers-group x", peersConfig{Group: "x"}, ""},
		{"a name alone", "--peers-name me", peersConfig{}, "--peers-name is about other routers: add --peers-nats or --peers-nats-listen, or leave it out"},
		{"credentials alone", "--peers-nats-creds f", peersConfig{}, "--peers-nats-creds is about other routers"},
		{"too many", "--peers-nats " + strings.Repeat("nats://a ", maxServers+1), peersConfig{}, "17 URLs are more than the 16"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parsePeers(t, tc.line, tc.want, tc.fault)
		})
	}
}

// A made-up name is a name, and no other has it.
func TestMadeUpNames(t *testing.T) {
	a, b := madeUpName(), madeUpName()
	if !peers.IsName(a) || !peers.IsName(b) || a == b {
		t.Errorf("%q and %q, want two names", a, b)
	}
}

// Credentials that can't be read end the router, with the flag and without it ever
// having listened.
func TestPeersCredentialsMissing(t *testing.T) {
	c, err := parse([]string{"--peers-nats", "nats://a", "--peers-nats-creds", t.TempDir() + "/none", "--worker-urls", "http://w:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := peersOf(c); err == nil || !strings.Contains(err.Error(), "--peers-nats-creds") {
		t.Errorf("%v, want an error that names the flag", err)
	}
}

// parsePeers reads a command line and checks what it says of other routers, or that it
// is faulty, where a fault is wanted.
func parsePeers(t *testing.T, line string, want peersConfig, fault string) (got peersConfig, faulty bool) {
	t.Helper()
	c, err := parse(append(strings.Fields(line), "--worker-urls", "http://w:1"), nil)
	if fault != "" {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Fatalf("%v, want %q", err, fault)
		}
		return c.Peers, true
	}
	if err != nil || fmt.Sprint(c.Peers) != fmt.Sprint(want) {
		t.Errorf("%+v, %v, want %+v", c.Peers, err, want)
	}
	return c.Peers, false
}
