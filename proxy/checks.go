package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"syscall"

	"loadstar/actors"
	"loadstar/proxy/pd"
)

// checkOf returns the check of a server's health: any 2xx is well. Of one that
// serves a phase the first good check also asks how many ranks it has, and under
// Mooncake each asks who it is. Now and then one also asks for its models, and what
// had some and has no list of them any more is not well.
func (p *Proxy) checkOf(s *server) actors.Check {
	auth := ""
	if p.control.key != "" {
		auth = "Bearer " + p.control.key
	}
	var turn modelTurn
	return func(ctx context.Context) error {
		_, err := p.control.call(ctx, http.MethodGet, s.site.base+p.opts.Health.Path, auth, 0)
		switch {
		case exhausted(err):
			return fmt.Errorf("%w: %w", actors.ErrNoVerdict, err)
		case errors.Is(err, syscall.ECONNREFUSED):
			p.lost(s.site.base)
		}
		sites := p.sitesOf(s)
		if err != nil {
			for _, at := range sites {
				at.forget()
			}
			turn.begin() // what comes back may be another process
			return err
		}
		if !s.sized {
			s.sized = p.countRanks(ctx, s, auth)
		}
		err = p.keepModels(ctx, s.site, &turn)
		for _, at := range sites {
			err = errors.Join(err, p.askBootstrap(ctx, at))
		}
		return err
	}
}

// sitesOf returns what is known of a server, by each name it was added under: its
// ranks may have been named one by one, and are checked together.
func (p *Proxy) sitesOf(s *server) []*site {
	sites := []*site{s.site}
	for _, w := range p.router.At(s.site.base) {
		if at := w.Handle.(*backend).site; w.Member && !slices.Contains(sites, at) {
			sites = append(sites, at)
		}
	}
	return sites
}

// maxRanks is the number of data-parallel ranks that one server may have.
const maxRanks = 1024

// countRanks asks a server how many data-parallel ranks it has, and has them take
// its place if that is another number than was thought. It reports false if it
// got no answer.
func (p *Proxy) countRanks(ctx context.Context, s *server, auth string) bool {
	answer, err := p.control.call(ctx, http.MethodGet, s.site.base+"/metrics", auth, controlAnswer)
	if err != nil {
		return false
	}
	n := enginesIn(answer)
	if n < 1 || n > maxRanks || n == len(s.specs) {
		return true
	}
	if p.isDraining(s.site.base) {
		return false // it is to go: its ranks would come as new members
	}
	if p.RemoveWorker(s.name) != nil {
		return true // somebody else did
	}
	ranks := &server{name: s.name, site: s.site.copy(), sized: true}
	ranks.setRanks(s.specs[0], n)
	err = p.add([]*server{ranks})
	if err == nil {
		p.log.Info("worker has data-parallel ranks", "worker", s.name, "ranks", n)
		return true
	}
	p.log.Warn("a worker's data-parallel ranks are not used", "worker", s.name, "ranks", n, "error", err)
	s.sized = true
	if err := p.add([]*server{s}); err != nil {
		p.log.Error("a worker is lost: add it again", "worker", s.name, "error", err)
	}
	return true
}

// enginesIn is the number of engines that vLLM's metrics tell of.
func enginesIn(text []byte) int {
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		const label = `engine="`
		i := bytes.Index(line, []byte(label))
		if i < 1 || line[i-1] != '{' && line[i-1] != ',' || !bytes.HasPrefix(line, []byte("vllm:")) {
			continue
		}
		value, _, ok := bytes.Cut(line[i+len(label):], []byte(`"`))
		if ok && len(seen) <= maxRanks {
			seen[string(value)] = true
		}
	}
	return len(seen)
}

// askBootstrap asks a Mooncake bootstrap server for its engines. Without them no
// block could be fetched, so a prefill worker without is not well.
func (p *Proxy) askBootstrap(ctx context.Context, s *site) error {
	if s.bootstrap == "" || s.connector != pd.Mooncake {
		return nil
	}
	answer, err := p.control.call(ctx, http.MethodGet, s.bootstrap+"/query", "", controlAnswer)
	if err == nil {
		var engines pd.Engines
		if engines, err = pd.ParseEngines(answer); err == nil {
			s.change(func(l *learnt) { l.engines = engines })
			return nil
		}
	}
	s.forget()
	if exhausted(err) {
		return fmt.Errorf("%w: %w", actors.ErrNoVerdict, err)
	}
	return fmt.Errorf("its bootstrap server %s: %w", s.bootstrap, err)
}

// doubt forgets what a server told of itself, for a request that believed it has
// failed, and asks again: until then nothing could be prefilled there under
// Mooncake.
func (p *Proxy) doubt(s *site) {
	s.forget()
	if s.bootstrap == "" {
		return
	}
	select {
	case s.asking <- struct{}{}:
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
			defer cancel()
			_ = p.askBootstrap(ctx, s) // the next check asks again, and tells
			<-s.asking
		}()
	default:
	}
}

// bootstrapURL is the base URL of the bootstrap server beside a worker.
func bootstrapURL(base string, port int) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return "http://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(port))
}
