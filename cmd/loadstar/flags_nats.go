package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"loadstar/actors/peers/nats/server"
)

// ownNATSConfig is a NATS server in this process.
type ownNATSConfig struct {
	Listen         listenConfig // an empty host is none
	User, Password string       // what it asks for: both, or
	Token          string       // this, or nothing
	Routes         []server.Route
}

// Enabled reports whether there is one.
func (o ownNATSConfig) Enabled() bool { return o.Listen.Host != "" }

// readNATSListen reads HOST:PORT, or a URL of it with what is asked for. Errors never
// quote it.
func readNATSListen(dst *ownNATSConfig) func(string) error {
	return func(value string) error {
		text := value
		if !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		if strings.HasPrefix(text, "tls://") {
			return errors.New("the server of this process speaks no TLS: write nats://, or run a NATS server of its own and give it by --peers-nats")
		}
		u, err := url.Parse(text)
		if err != nil || strings.ContainsFunc(text, isSpaceOrControl) {
			return errors.New("it can't be read: write HOST:PORT or nats://USER:PASSWORD@HOST:PORT, with anything but letters and digits in user and password as %XX")
		}
		var at listenConfig
		switch err := readListen(&at)(u.Host); {
		case u.Scheme != "nats" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
			return errors.New("it is neither HOST:PORT nor nats://USER:PASSWORD@HOST:PORT")
		case err != nil:
			return errors.New("its host or port is none: write HOST:PORT, such as 127.0.0.1:4222, or 0.0.0.0:4222 for every address of the machine")
		}
		own := ownNATSConfig{Listen: at, Routes: dst.Routes}
		if u.User != nil {
			var both bool
			if own.Password, both = u.User.Password(); both {
				own.User = u.User.Username()
			} else {
				own.Token = u.User.Username()
			}
			if own.User+own.Token == "" || both && (own.User == "" || own.Password == "") {
				return errors.New("user, password or token is empty: give USER:PASSWORD or TOKEN, or leave out the @ too")
			}
		}
		*dst = own
		return nil
	}
}

// natsRoutes reads addresses, separated by commas or given one by one, each also as a
// URL.
func natsRoutes(dst *[]server.Route) func([]string) []error {
	return func(values []string) []error {
		var routes []server.Route
		var faults []error
		for _, v := range values {
			for one := range strings.SplitSeq(v, ",") {
				r, err := natsRoute(one)
				if err != nil {
					faults = append(faults, fmt.Errorf("address %d: %w", len(routes)+1, err))
				}
				routes = append(routes, r)
			}
		}
		if len(routes) > maxServers {
			faults = append(faults, fmt.Errorf("%d addresses are more than the %d that are taken", len(routes), maxServers))
		}
		*dst = routes
		return faults
	}
}

func natsRoute(text string) (server.Route, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(text, "nats://"), "/")
	if strings.Contains(bare, "@") {
		return server.Route{}, errors.New("all servers ask for the same user and password: give them in --peers-nats-listen alone")
	}
	host, port, err := net.SplitHostPort(bare)
	plain, ok := parseHost(host)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || !ok || perr != nil || n == 0 {
		return server.Route{}, errors.New("it is no address: write HOST:PORT, with the port of --peers-nats-listen there")
	}
	return server.Route{Host: plain, Port: int(n)}, nil
}

// checkOwnNATS is check for a NATS server in this process.
func (c config) checkOwnNATS() []error {
	var faults []error
	fault := func(text string, args ...any) { faults = append(faults, fmt.Errorf(text, args...)) }
	p, own := &c.Peers, &c.Peers.Own
	if !own.Enabled() {
		if len(own.Routes) > 0 {
			fault("--peers-nats-routes needs --peers-nats-listen: the address at which servers of other routers reach this one's")
		}
		return faults
	}
	if len(p.Servers) > 0 {
		fault("--peers-nats and --peers-nats-listen exclude each other: a router with a server of its own is that one's client, and knows others by --peers-nats-routes; leave one of them out")
	}
	if p.CredsFile != "" {
		fault("--peers-nats-creds is for servers elsewhere: with --peers-nats-listen leave it out, and give USER:PASSWORD@ or TOKEN@ there")
	}
	if own.Token != "" && len(own.Routes) > 0 {
		fault("--peers-nats-listen: servers among each other know users, and no tokens: with --peers-nats-routes give nats://USER:PASSWORD@HOST:PORT")
	}
	if own.User+own.Token == "" && !isLoopback(own.Listen.Host) {
		fault("--peers-nats-listen on another address than loopback needs a password: give nats://USER:PASSWORD@HOST:PORT, best by the variable %s, "+
			"as whoever may connect can make workers look busy", envName("peers-nats-listen"))
	}
	for _, other := range []struct {
		flag   string
		listen listenConfig
		given  bool
	}{
		{"--port", c.Listen, true},
		{"--prometheus-port", c.Metrics.Listen, true},
		{"the port of --admin-listen", c.Access.AdminListen, c.Access.HasAdminListener()},
		{"the port of --vllm-discovery-address", c.PD.Discovery.Listen, c.PD.Discovery.Enabled()},
	} {
		if other.given && own.Listen.overlaps(other.listen) {
			fault("%s and the port of --peers-nats-listen are both %d: give them different ports", other.flag, own.Listen.Port)
		}
	}
	return faults
}
