package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"loadstar/actors"
	"loadstar/proxy/rawjson"
)

// modelsListWait bounds how long a worker is waited for that is asked for its models.
const modelsListWait = 2 * time.Second

// modelTurn says at which good checks a server is also asked for its models: at the
// first, at the first behind a bad one, for what comes back may be another process,
// and at every third. Behind a failure the next one asks, unless it is one of many.
type modelTurn struct {
	skip     int  // checks until it is asked
	failures int  // in a row
	told     bool // once; never forgotten
}

const modelsSkipped = 2 // checks between two that ask

// due reports whether a good check asks.
func (t *modelTurn) due() bool {
	if t.skip > 0 {
		t.skip--
		return false
	}
	return true
}

// asked notes how that went.
func (t *modelTurn) asked(err error) {
	if err == nil {
		*t = modelTurn{skip: modelsSkipped, told: true}
		return
	}
	t.skip = min(t.failures, modelsSkipped)
	t.failures++
}

// begin has the next good check ask.
func (t *modelTurn) begin() { *t = modelTurn{told: t.told} }

// keepModels asks a server that is well for its models, if it is time to. Those it
// told before hold until it tells others. The error says that it has no list of models
// any more: something else, that is well too, has got its address.
func (p *Proxy) keepModels(ctx context.Context, s *site, t *modelTurn) error {
	if !p.opts.AskModels || !t.due() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, modelsListWait)
	defer cancel()
	err := p.askModels(ctx, s)
	if err != nil {
		p.log.Debug("a worker does not tell its models", "worker", s.base, "error", err)
	}
	if t.told && (errors.Is(err, errNotFound) || errors.Is(err, errNoList)) {
		return fmt.Errorf("it told its models once, and has no /v1/models any more: %w; if it is meant to be another service, remove it and add it again", err)
	}
	t.asked(err)
	return nil
}

// askModels has the registry know which models a server serves. Of two that ask at a
// time the second waits, so that the later answer counts.
func (p *Proxy) askModels(ctx context.Context, s *site) error {
	select {
	case s.listing <- struct{}{}:
		defer func() { <-s.listing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	auth := ""
	if p.control.key != "" {
		auth = "Bearer " + p.control.key
	}
	answer, err := p.control.call(ctx, http.MethodGet, s.base+"/v1/models", auth, modelsAnswer)
	if err != nil {
		return err
	}
	names, cut, err := readModels(answer)
	if err != nil {
		return err
	}
	changed, err := p.router.SetModels(s.base, names)
	if changed {
		p.log.Info("worker has told its models", "worker", s.base, "models", len(names), "first", names[0])
		if cut {
			p.log.Warn("a worker tells of more models than are taken note of", "worker", s.base, "limit", actors.MaxModelsOfWorker)
		}
	}
	return err
}

var (
	errNoList   = errors.New("the answer is no list of models")
	errNoModels = errors.New("its list of models has no name in it that can be one")
)

// readModels returns the names in an answer to /v1/models, each once, base models
// and adapters alike; cut says that there are more. What can be no name is left out.
func readModels(answer []byte) (names []string, cut bool, err error) {
	list, ok := rawjson.OpenArray(rawjson.Member(answer, "data"))
	if !ok {
		return nil, false, errNoList
	}
	known := map[string]bool{}
	for {
		entry, more := list.Next()
		if !more {
			break
		}
		name := modelName(entry)
		switch {
		case name == "" || known[name]:
		case len(names) == actors.MaxModelsOfWorker:
			return names, true, nil
		default:
			known[name] = true
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, false, errNoModels
	}
	return names, false, nil
}

// modelName is the id in an entry of a list of models, or "" if it has none that can
// be a name.
func modelName(entry []byte) string {
	id := rawjson.Member(entry, "id")
	if len(id) < 2 || id[0] != '"' || len(id) > 6*actors.MaxModelName {
		return ""
	}
	name := string(rawjson.Unescape(nil, id[1:len(id)-1]))
	if !actors.FitModelName(name) {
		return ""
	}
	return name
}
