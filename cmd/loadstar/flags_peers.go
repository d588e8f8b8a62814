package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"loadstar/actors/peers"
)

// peersConfig is how this router and others with the same workers hear of each other:
// by NATS servers elsewhere or by one in this process, or not at all.
type peersConfig struct {
	Servers   []string // of NATS, elsewhere
	CredsFile string
	Group     string
	Name      string // empty: one is made up
	Own       ownNATSConfig
}

// Enabled reports whether there may be other routers.
func (p peersConfig) Enabled() bool { return len(p.Servers) > 0 || p.Own.Enabled() }

// peersOptions is how several routers share workers.
func peersOptions(p *peersConfig) []*option {
	const category = "several routers"
	return []*option{
		{
			name: "peers-nats", arg: "URL,...", category: category, from: ours, secret: true, needs: "URL",
			usage: "tell other routers by this NATS server, or one of these, what runs at workers and which prompts were placed where, and take account of theirs; " +
				"nats://HOST:PORT or tls://HOST:PORT, with USER:PASSWORD@ or TOKEN@ where it asks for them; other users of the machine see a command line, so prefer the variable then",
			many: natsServers(&p.Servers),
		},
		{
			name: "peers-nats-listen", arg: "HOST:PORT", category: category, from: ours, secret: true,
			usage: "run a NATS server in this process, to which other routers connect by --peers-nats, or with --peers-nats-routes their servers; nats://USER:PASSWORD@HOST:PORT or " +
				"nats://TOKEN@HOST:PORT asks for them, as it must on another address than loopback; other users of the machine see a command line, so prefer the variable then",
			one: readNATSListen(&p.Own),
		},
		{
			name: "peers-nats-routes", arg: "HOST:PORT,...", category: category, from: ours, needs: "address",
			usage: "make one cluster of the servers of several routers' --peers-nats-listen, here and at these addresses, which outlives each of them; a host may have " +
				"many addresses, asked for every 5 seconds, and this router's own may be among them",
			many: natsRoutes(&p.Own.Routes),
		},
		{
			name: "peers-nats-creds", arg: "FILE", category: category, from: ours,
			usage: "present the NATS credentials in FILE, which is read for each connection",
			one:   readFileName(&p.CredsFile),
		},
		{
			name: "peers-group", arg: "NAME", category: category, def: "loadstar", from: ours,
			usage: "tell routers of this group only, which have the same workers and policy; it is the beginning of NATS subjects",
			one:   readGroup(&p.Group),
		},
		{
			name: "peers-name", arg: "NAME", category: category, implied: "the host's name and random digits", from: ours,
			usage: "be called NAME among them, as no other is; a name that stays has a restarted router take the place of the one before at once, and not after a second",
			one:   readPeerName(&p.Name),
		},
	}
}

// maxServers bounds what is tried in turn.
const maxServers = 16

// natsServers reads URLs, separated by commas or given one by one. Errors never quote
// them.
func natsServers(dst *[]string) func([]string) []error {
	return func(values []string) []error {
		var servers []string
		var faults []error
		for _, v := range values {
			for one := range strings.SplitSeq(v, ",") {
				if err := checkNATS(one); err != nil {
					faults = append(faults, fmt.Errorf("URL %d: %w", len(servers)+1, err))
				}
				servers = append(servers, one)
			}
		}
		if len(servers) > maxServers {
			faults = append(faults, fmt.Errorf("%d URLs are more than the %d that are taken", len(servers), maxServers))
		}
		*dst = servers
		return faults
	}
}

func checkNATS(text string) error {
	u, err := url.Parse(text)
	if err != nil || strings.ContainsFunc(text, isSpaceOrControl) {
		return errors.New("it can't be read: write nats://HOST:PORT, with anything but letters and digits in user and password as %XX")
	}
	_, ok := parseHost(u.Hostname())
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case !slices.Contains([]string{"nats", "tls"}, u.Scheme):
		return errors.New("it begins neither with nats:// nor with tls://")
	case !ok || u.Port() != "" && (err != nil || port == 0):
		return errors.New("its host or port is none: write nats://HOST:PORT")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return errors.New("there is something behind the port: write nats://HOST:PORT")
	}
	return nil
}

// maxGroup keeps subjects short.
const maxGroup = 128

// readGroup reads the beginning of a subject: words of letters, digits, - and _, joined
// by points.
func readGroup(dst *string) func(string) error {
	return func(value string) error {
		for word := range strings.SplitSeq(value, ".") {
			if !peers.IsName(word) || strings.Contains(word, ":") || len(value) > maxGroup {
				return fmt.Errorf("%q is no group: give words of letters, digits, - and _, joined by points, of at most %d bytes", value, maxGroup)
			}
		}
		*dst = value
		return nil
	}
}

// readPeerName reads the name of a router.
func readPeerName(dst *string) func(string) error {
	return func(value string) error {
		if !peers.IsName(value) {
			return fmt.Errorf("%q is no name of a router: give 1 to %d letters, digits and characters of ._:-", value, peers.MaxName)
		}
		*dst = value
		return nil
	}
}

// checkPeers is check for several routers.
func (c config) checkPeers() []error {
	faults := c.checkOwnNATS()
	if c.Peers.Enabled() {
		return faults
	}
	for _, f := range []struct {
		flag  string
		given bool
	}{{"--peers-nats-creds", c.Peers.CredsFile != ""}, {"--peers-name", c.Peers.Name != ""}} {
		if f.given {
			faults = append(faults, fmt.Errorf("%s is about other routers: add --peers-nats or --peers-nats-listen, or leave it out", f.flag))
		}
	}
	return faults
}
