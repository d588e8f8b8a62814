package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Programs says where programs are.
type Programs struct {
	PeersDir string // looked in before PATH
	Loadstar string // the binary
	Bench    string // the bench program's binary
}

// Launch describes a router that is to run.
type Launch struct {
	Programs
	Name    string   // one of Names, and behind a colon a policy if not its usual one
	Args    []string // behind those that it is always given
	Workers []string // their addresses, host:port
	Dir     string   // for its files
	Core    int      // where it runs
}

// IsLoadstar reports whether a Launch of this name is one of Loadstar.
func IsLoadstar(name string) bool {
	name, _, _ = strings.Cut(name, ":")
	return name == loadstarName
}

// Started is a router that runs until it is ended.
type Started struct {
	Version string
	URL     string // of the generation
	Metrics string // of the metrics, if the router has any
	running *running
}

// End ends the router's processes.
func (s *Started) End() { s.running.end() }

// CPU is the CPU time that the router's processes have used.
func (s *Started) CPU() (time.Duration, error) { return cpuOf(s.running.pids) }

// Memory is how many bytes the router's processes take (Pss).
func (s *Started) Memory() (int64, error) { return memoryOf(s.running.pids) }

// Start starts a router and waits until it answers a generation that asks for
// Model.
func Start(ctx context.Context, l Launch) (*Started, error) {
	p, policy, err := named(l.Name)
	if err != nil {
		return nil, err
	}
	f, err := p.locate(ctx, l.Programs)
	if err != nil {
		return nil, fmt.Errorf("%s is missing (%w); to have it measured: %s", p.name, err, p.install)
	}
	f.policy, f.more = policy, l.Args
	files, err := RaiseFiles()
	if err != nil {
		return nil, err
	}
	b := bed{dir: l.Dir, routerCores: []int{l.Core}, maxConns: files / 3}
	r, err := b.start(ctx, f, l.Workers)
	if err != nil {
		return nil, err
	}
	return &Started{Version: f.version, URL: r.url(), Metrics: "http://" + r.metrics + "/metrics", running: r}, nil
}

// CheckName says what is wrong with a name of a router and its policy.
func CheckName(name string) error {
	_, _, err := named(name)
	return err
}

// named finds a router by its name, behind which a colon and a policy may stand.
func named(name string) (peer, string, error) {
	router, policy, _ := strings.Cut(name, ":")
	i := slices.IndexFunc(peers, func(p peer) bool { return p.name == router })
	switch {
	case i < 0:
		return peer{}, "", fmt.Errorf("router %q: give one of %s", router, strings.Join(Names(), ", "))
	case policy != "" && peers[i].fixed:
		return peer{}, "", fmt.Errorf("router %q: it has no choice of policies, leave out :%s", name, policy)
	}
	return peers[i], policy, nil
}

// locate finds a router's program and version.
func (p peer) locate(ctx context.Context, in Programs) (found, error) {
	f := found{peer: p, file: in.Loadstar}
	if p.name == bareName {
		f.file = in.Bench
	}
	if p.program != "" {
		file, err := find(in.PeersDir, p.program)
		if err != nil {
			return found{}, err
		}
		f.file = file
	}
	f.version = p.version(ctx, f.file)
	return f, nil
}
