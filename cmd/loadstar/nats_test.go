package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"loadstar/actors/peers/nats/server"
)

// unusedAddress is one that nobody listens at, and below those that the system gives to
// connections.
func unusedAddress(t *testing.T) string {
	t.Helper()
	for {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000)))
		if err == nil {
			ln.Close()
			return ln.Addr().String()
		}
	}
}

// hosting starts a router with a NATS server of its own.
func hosting(t *testing.T, listen string, more ...string) (cmd *exec.Cmd, addr string) {
	t.Helper()
	args := []string{"--port", "0", "--prometheus-port", "0", "--log-format", "json", "--worker-startup-check-interval", "1", "--policy", "least_work", "--peers-nats-listen", listen}
	cmd, out := start(t, `"listening"`, append(args, more...)...)
	addr = listening(t, out)
	waitReady(t, addr)
	return cmd, addr
}

// chats opens streams at a router, and gives what ends them.
func chats(t *testing.T, addr string, n int) (end func()) {
	t.Helper()
	var ends []func()
	for range n {
		_, end := chat(t, addr, `{"stream":true,"messages":[{"role":"user","content":"x"}],"max_tokens":100000}`)
		ends = append(ends, end)
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

func waitForeign(t *testing.T, addr string, load, foreign int) {
	t.Helper()
	waitLoads(t, addr, fmt.Sprintf("%d requests here and %d elsewhere", load, foreign), func(l, f int) bool { return l == load && f == foreign })
}

// Routers with a server each, and one list of routes for all, hear of each other's
// requests; when one is killed the others still do, and it is found again when it is back.
func TestRoutersWithOwnNATS(t *testing.T) {
	_, urls := simulated(t, 2)
	var at [3]string
	for i := range at {
		at[i] = unusedAddress(t)
	}
	host := func(i int) (*exec.Cmd, string) {
		return hosting(t, "nats://router:"+secretMark+"@"+at[i], append([]string{"--peers-nats-routes", strings.Join(at[:], ","), "--worker-urls"}, urls...)...)
	}
	var cmds [3]*exec.Cmd
	var addrs [3]string
	for i := range at {
		cmds[i], addrs[i] = host(i)
	}
	defer chats(t, addrs[0], 3)()
	defer chats(t, addrs[1], 2)()
	waitForeign(t, addrs[0], 3, 2)
	waitForeign(t, addrs[1], 2, 3)
	waitForeign(t, addrs[2], 0, 5)
	_ = cmds[0].Process.Kill()
	waitForeign(t, addrs[1], 2, 0)
	waitForeign(t, addrs[2], 0, 2)
	end := chats(t, addrs[2], 1)
	waitForeign(t, addrs[1], 2, 1)
	_, addrs[0] = host(0)
	waitForeign(t, addrs[0], 0, 3)
	if v := peersOfRouter(t, addrs[0]); !v.Connected || len(v.Peers) != 2 {
		t.Errorf("GET /peers: %+v, want two", v)
	}
	end()
	_ = cmds[2].Process.Signal(syscall.SIGTERM)
	if code := exitOf(t, cmds[2]); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	waitForeign(t, addrs[1], 2, 0)
	waitForeign(t, addrs[0], 0, 2)
}

// One router has the server, others are its clients, by a token that nobody else knows.
func TestRouterHostsNATS(t *testing.T) {
	_, urls := simulated(t, 2)
	at := unusedAddress(t)
	_, first := hosting(t, "nats://"+secretMark+"@"+at, append([]string{"--worker-urls"}, urls...)...)
	_, second := peering(t, "nats://"+secretMark+"@"+at, append([]string{"--worker-urls"}, urls...)...)
	_, stranger := peering(t, "nats://"+at, append([]string{"--worker-urls"}, urls...)...)
	defer chats(t, first, 2)()
	defer chats(t, second, 1)()
	waitForeign(t, first, 2, 1)
	waitForeign(t, second, 1, 2)
	waitForeign(t, stranger, 0, 0)
	if v := peersOfRouter(t, stranger); v.Connected || len(v.Peers) != 0 {
		t.Errorf("a router without the token: %+v, want it refused", v)
	}
}

// A process that takes over takes its server's address too, in either form, and what
// runs is counted once by others.
func TestTakeoverOfOwnNATS(t *testing.T) {
	_, urls := simulated(t, 2)
	for _, mesh := range []bool{false, true} {
		t.Run(fmt.Sprint("mesh ", mesh), func(t *testing.T) {
			t.Parallel()
			own, other, door := unusedAddress(t), unusedAddress(t), door(t)
			args := []string{"--takeover", door, "--shutdown-grace-period-secs", "30"}
			var there string
			if mesh {
				args = append(args, "--peers-nats-routes", own+","+other)
				_, there = hosting(t, other, append([]string{"--peers-nats-routes", own + "," + other, "--worker-urls"}, urls...)...)
			} else {
				_, there = peering(t, "nats://"+own, append([]string{"--worker-urls"}, urls...)...)
			}
			args = append(append(args, "--worker-urls"), urls...)
			before, addr := hosting(t, own, args...)
			end := chats(t, addr, 4)
			waitForeign(t, there, 0, 4)
			_, now := hosting(t, own, args...)
			waitForeign(t, now, 0, 4)
			waitLoads(t, there, "4 elsewhere, told by the next process", func(l, f int) bool {
				v := peersOfRouter(t, now)
				return l == 0 && f == 4 && len(v.Peers) == 1
			})
			end()
			waitForeign(t, there, 0, 0)
			if code := exitOf(t, before); code != 0 {
				t.Errorf("exit code %d of the process before, want 0", code)
			}
			defer chats(t, now, 2)()
			waitForeign(t, there, 0, 2)
		})
	}
}

// An address in use ends the router at once, with what to do.
func TestOwnNATSInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, more := range [][]string{nil, {"--peers-nats-routes", "127.0.0.1:1"}} {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe, append([]string{"--port", "0", "--prometheus-port", "0", "--worker-urls", "http://127.0.0.1:1", "--peers-nats-listen", "nats://u:" + secretMark + "@" + ln.Addr().String()}, more...)...)
		cmd.Env = append(os.Environ(), "LOADSTAR_TEST_MAIN=1")
		var faults bytes.Buffer
		cmd.Stderr = &faults
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		if code, want := exitOf(t, cmd), "cannot listen for other routers: listen tcp "+ln.Addr().String()+": bind: address already in use; choose another --peers-nats-listen"; code != 1 || !strings.Contains(faults.String(), want) {
			t.Errorf("exit code %d, %q, want 1 and %q", code, faults.String(), want)
		}
		output{"the error": faults.String()}.wantNoSecrets(t, secretMark)
	}
}

// Flags of the server make what they say, and what contradicts them is refused.
func TestOwnNATSFlags(t *testing.T) {
	own := func(o ownNATSConfig) peersConfig { return peersConfig{Group: "loadstar", Own: o} }
	here := listenConfig{"127.0.0.1", 4222}
	for _, tc := range []struct {
		name, line string
		want       peersConfig
		fault      string
	}{
		{"loopback", "--peers-nats-listen 127.0.0.1:4222", own(ownNATSConfig{Listen: here}), ""},
		{"user", "--peers-nats-listen nats://u:p%40@0.0.0.0:4222", own(ownNATSConfig{Listen: listenConfig{"0.0.0.0", 4222}, User: "u", Password: "p@"}), ""},
		{"token", "--peers-nats-listen nats://t@[::]:4222", own(ownNATSConfig{Listen: listenConfig{"::", 4222}, Token: "t"}), ""},
		{
			"routes, before and behind", "--peers-nats-routes a:1,nats://b:2 [::1]:3 --peers-nats-listen 127.0.0.1:4222",
			own(ownNATSConfig{Listen: here, Routes: []server.Route{{Host: "a", Port: 1}, {Host: "b", Port: 2}, {Host: "::1", Port: 3}}}), "",
		},
		{"another server too", "--peers-nats nats://a --peers-nats-listen 127.0.0.1:4222", peersConfig{}, "--peers-nats and --peers-nats-listen exclude each other"},
		{"credentials", "--peers-nats-creds f --peers-nats-listen 127.0.0.1:4222", peersConfig{}, "--peers-nats-creds is for servers elsewhere"},
		{"routes alone", "--peers-nats-routes a:1", peersConfig{}, "--peers-nats-routes needs --peers-nats-listen"},
		{"routes and a server elsewhere", "--peers-nats nats://a --peers-nats-routes a:1", peersConfig{}, "--peers-nats-routes needs --peers-nats-listen"},
		{"a token among servers", "--peers-nats-listen nats://t@127.0.0.1:4222 --peers-nats-routes a:1", peersConfig{}, "servers among each other know users, and no tokens"},
		{"open to all", "--peers-nats-listen 0.0.0.0:4222", peersConfig{}, "--peers-nats-listen on another address than loopback needs a password"},
		{"open to all, with routes", "--peers-nats-listen 10.0.0.1:4222 --peers-nats-routes a:1", peersConfig{}, "needs a password"},
		{"the port of clients", "--peers-nats-listen 127.0.0.1:30000", peersConfig{}, "--port and the port of --peers-nats-listen are both 30000"},
		{"the port of metrics", "--peers-nats-listen 127.0.0.1:29000", peersConfig{}, "--prometheus-port and the port of --peers-nats-listen are both 29000"},
		{"the port of the admin API", "--admin-listen 127.0.0.1:4222 --peers-nats-listen 127.0.0.1:4222", peersConfig{}, "the port of --admin-listen and the port of --peers-nats-listen are both 4222"},
		{"too many", "--peers-nats-listen 127.0.0.1:4222 --peers-nats-routes " + strings.Repeat("a:1 ", maxServers+1), peersConfig{}, "17 addresses are more than the 16"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, faulty := parsePeers(t, tc.line, tc.want, tc.fault); !faulty && !got.Enabled() {
				t.Errorf("%+v are no peers", got)
			}
		})
	}
	c, err := parse([]string{"--worker-urls", "http://w:1"}, variables(map[string]string{
		"LOADSTAR_PEERS_NATS_LISTEN": "nats://u:p@0.0.0.0:1", "LOADSTAR_PEERS_NATS_ROUTES": "a:1 b:1,c:1",
	}))
	if err != nil || c.Peers.Own.Password != "p" || len(c.Peers.Own.Routes) != 3 {
		t.Errorf("by variables %+v, %v", c.Peers, err)
	}
}

// A router without the flag runs no server, whatever else it is told of others.
func TestNoOwnNATS(t *testing.T) {
	c, err := parse([]string{"--worker-urls", "http://w:1", "--peers-nats", "nats://a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, err := openNATS(c, true, nil)
	if err != nil || own.server != nil {
		t.Errorf("%+v, %v, want no server", own, err)
	}
	own.close()
}

// What is taken means itself when it is written in full, and what isn't is not quoted.
func FuzzNATSListen(f *testing.F) {
	for _, seed := range []string{"127.0.0.1:4222", "nats://u:p%40@a:1", "nats://t@[::1]:1/", "u:p@a:1", "nats://u:p/@a:1", "tls://u:p@a:1", "nats://a:1?u:p@", "a:1:p"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got, again ownNATSConfig
		if err := readNATSListen(&got)(text); err != nil {
			if _, secret, _ := strings.Cut(text, ":"); len(secret) > 20 && strings.Contains(err.Error(), secret) {
				t.Errorf("%q is quoted in %v", text, err)
			}
			if got.Enabled() {
				t.Errorf("%q leaves %+v", text, got)
			}
			return
		}
		u := url.URL{Scheme: "nats", Host: got.Listen.Addr()}
		switch {
		case got.User != "":
			u.User = url.UserPassword(got.User, got.Password)
		case got.Token != "":
			u.User = url.User(got.Token)
		}
		if err := readNATSListen(&again)(u.String()); err != nil || fmt.Sprint(got) != fmt.Sprint(again) {
			t.Errorf("%q is %+v, and in full %s %+v, %v", text, got, u.String(), again, err)
		}
	})
}
