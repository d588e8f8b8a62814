package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"loadstar/actors/workerurl"

	"github.com/valyala/fasthttp"
)

// LoRA adapters are loaded into engines, and out of them, while they run. A call for
// that is an operator's: it has the engine read a path of its machine, and one that
// reached a single worker of many would leave the fleet in two minds. So it is this
// router's own, under the admin API's rules, and goes to all workers that it is
// meant for. Nothing of it is remembered: a worker that comes later, or again, has
// the adapters it is started with.

// Bounds of a call that loads an adapter or takes one out.
const (
	adapterBody    = 1 << 20         // bytes
	adapterTimeout = 2 * time.Minute // the weights may come over a network
	adapterAnswer  = 64 << 10        // bytes of a worker's answer that are read
	adapterFaults  = 8               // workers whose faults are told
)

// changeAdapter passes a call that loads or unloads an adapter on to the healthy
// workers: all, the one that the query's url names, or those that serve the model
// that it names.
func (x *exchange) changeAdapter() {
	body, err := readBody(nil, &x.ctx.Request, x.ctx.Conn(), adapterBody, x.p.opts.Timeouts.ClientBody, nil)
	if err != nil || !looksJSON(body) {
		x.refuse(badRequest("The body must be a JSON object with lora_name, and lora_path if it is to be loaded."))
		return
	}
	sites, e := x.adapterSites()
	if e != nil {
		x.refuse(e)
		return
	}
	ctx, cancel := context.WithTimeout(x.p.over, adapterTimeout)
	defer cancel()
	path, auth, faults := string(x.path), x.authorization(), make([]error, len(sites))
	inParallel(len(sites), func(i int) {
		faults[i] = x.p.control.post(ctx, sites[i].base+path, auth, body)
		if x.p.opts.AskModels {
			if err := x.p.askModels(ctx, sites[i]); err != nil {
				x.p.log.Warn("a worker whose adapters were changed does not tell its models", "worker", sites[i].base, "error", err)
			}
		}
	})
	var told []string
	failed, theirs := 0, true // all of them find fault with the request
	for i, err := range faults {
		if err == nil {
			continue
		}
		if failed++; failed <= adapterFaults {
			told = append(told, sites[i].base+": "+err.Error())
		}
		bad, ok := errors.AsType[*workerRefusal](err)
		theirs = theirs && ok && bad.status < 500
	}
	if failed == 0 {
		x.answerText(fasthttp.StatusOK, fmt.Sprintf("Success: done by %d workers", len(sites)))
		return
	}
	status, kind := fasthttp.StatusBadGateway, kindServer
	if theirs {
		status, kind = fasthttp.StatusBadRequest, kindInvalid
	}
	x.refuse(&problem{status, kind, "adapter_failed", fmt.Sprintf("%d of %d workers did not do it: %s", failed, len(sites), strings.Join(told, "; ")), 0})
}

// adapterSites lists the servers that such a call is meant for.
func (x *exchange) adapterSites() ([]*site, *problem) {
	v, err := x.p.router.Snapshot(x.p.now())
	if err != nil {
		return nil, problemOf(err)
	}
	args := x.ctx.QueryArgs()
	name, model := string(args.Peek("url")), string(args.Peek("model"))
	if name != "" {
		if name, err = workerurl.Name(name); err != nil {
			return nil, badRequest(err.Error())
		}
	}
	var sites []*site
	for i := range v.Workers {
		w := &v.Workers[i]
		if !w.Member || !w.Healthy || w.Draining || name != "" && name != w.URL && name != w.Base || model != "" && !slices.Contains(w.Serves, model) {
			continue
		}
		at := w.Handle.(*backend).site
		if !slices.ContainsFunc(sites, func(s *site) bool { return s.base == at.base }) {
			sites = append(sites, at)
		}
	}
	if len(sites) == 0 {
		return nil, &problem{fasthttp.StatusNotFound, kindNotFound, "worker_not_found", "There is no healthy worker that this is meant for.", 0}
	}
	return sites, nil
}

// workerRefusal is a worker's answer other than 2xx.
type workerRefusal struct {
	status  int
	message string
}

// Error has the worker's own words, if there are any.
func (r *workerRefusal) Error() string {
	if r.message == "" {
		return fmt.Sprintf("status %d", r.status)
	}
	return fmt.Sprintf("status %d: %s", r.status, r.message)
}

// post posts JSON to a worker. The error is a *workerRefusal if it has answered.
func (c *controlClient) post(ctx context.Context, to, auth string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return plainly(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, adapterAnswer)) // it says what it can
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	return &workerRefusal{resp.StatusCode, errorMessage(answer)}
}

// disguised reports whether a worker would read a path as one that it shares with
// this router, which only operators may call, written in another way.
func (p *Proxy) disguised(path []byte) bool {
	if bytes.IndexByte(path, '%') < 0 {
		return false
	}
	plain, err := url.PathUnescape(string(path))
	if err != nil {
		return false
	}
	r := p.routes[plain]
	return r != nil && r.both
}
