package worker

import (
	"encoding/json"
	"net/http"
	"strings"
)

// sampling is the part of a request that all generating APIs share.
type sampling struct {
	Model     string `json:"model"`
	Stream    bool   `json:"stream"`
	N         *int   `json:"n"`
	MinTokens int    `json:"min_tokens"`
	IgnoreEOS bool   `json:"ignore_eos"`
	CacheSalt string `json:"cache_salt"`

	KV *kvParams `json:"kv_transfer_params"`

	base []byte // of a prompt that ends within an answer, what stands before that answer; nil for others
	said int    // words of that answer
}

// generation is an answer to be written: what to ask of the engine, and the
// words that its tokens are.
type generation struct {
	job       *job
	perPrompt int // streams of one prompt
	seed      uint64
	said      int     // words of the answer that the prompt holds already
	origin    uint64  // print of the prompt without them, if there are any
	ended     outcome // stopped or truncated, once all tokens are there
	hits      int     // blocks found in the cache; known from the first progress on
	loaded    bool    // the other blocks came from another worker; likewise
	minTokens int
	kv        *kvParams       // nil for a request that one worker does alone
	handover  json.RawMessage // kv_transfer_params of the answer; nil for none
}

// usage is the price of a request in tokens.
type usage struct {
	prompt, cached, completion int
}

// newGeneration checks a request's parameters. maxTokens is nil if the client
// set no limit; its name is for the error.
func (c *call) newGeneration(texts [][]byte, s sampling, maxName string, maxTokens *int) (*generation, error) {
	n, most := 1, maxStreams/len(texts)
	if s.N != nil {
		n = *s.N
	}
	if n < 1 || n > most {
		return nil, badRequest("n", "n is %d, not from 1 to %d", n, most)
	}
	g := &generation{perPrompt: n, seed: c.cfg.Seed, ended: stopped, minTokens: s.MinTokens, kv: s.KV}
	limit := max(c.cfg.OutputTokens-s.said, s.MinTokens, 1)
	if maxTokens != nil {
		if *maxTokens < 1 {
			return nil, badRequest(maxName, "%s is %d, less than 1", maxName, *maxTokens)
		}
		if *maxTokens <= limit || s.IgnoreEOS {
			limit, g.ended = *maxTokens, truncated
		}
	}
	if streams := n * len(texts); limit > maxOutput/streams {
		return nil, badRequest(maxName, "%d answers of %d tokens are more than %d tokens together", streams, limit, maxOutput)
	}
	ps := make([]prompt, 0, len(texts))
	for _, text := range texts {
		ps = append(ps, newPrompt(text, s.CacheSalt))
	}
	if s.said > 0 {
		g.said, g.origin = s.said, newPrompt(s.base, s.CacheSalt).print
	}
	g.job = newJob(ps, n*len(texts), limit)
	return g, nil
}

// word is token i of a stream.
func (g *generation) word(stream, i int) string {
	print := g.job.prompts[stream/g.perPrompt].print
	if g.said > 0 {
		print = g.origin
	}
	return word(mix(print^g.seed)+uint64(stream%g.perPrompt), g.said+i)
}

// text is a stream's whole answer.
func (g *generation) text(stream int) string {
	var b strings.Builder
	for i := range g.job.limit {
		b.WriteString(g.word(stream, i))
	}
	return b.String()
}

// reason is why the answer ended, in OpenAI's words.
func (g *generation) reason() string {
	if g.ended == truncated {
		return "length"
	}
	return "stop"
}

func (g *generation) usage() usage {
	u := usage{cached: g.hits * BlockTokens, completion: g.job.streams * g.job.limit}
	for _, p := range g.job.prompts {
		u.prompt += tokenCount(p.size)
	}
	if g.loaded {
		u.cached = u.prompt // as vLLM has it: what came from elsewhere was cached there
	}
	return u
}

// dialect is how an API writes a generation.
type dialect interface {
	begin(*events)                            // what comes before the first token
	token(e *events, stream int, text string) // one token of one stream
	end(*events)                              // what comes after the last one
	whole() any                               // all of it, without streaming
}

// generate runs g and answers in d.
func (c *call) generate(g *generation, d dialect, stream bool) (outcome, error) {
	if ended, err := c.sufferHalf(g.kv); err != nil {
		return ended, err
	}
	if c.fault.Stop && g.minTokens < 1 {
		g.job.limit, g.ended = 1, stopped
	}
	if ended, err := c.hand(g); err != nil {
		return ended, err
	}
	if ended, err := c.submit(g.job); err != nil {
		return ended, err
	}
	var err error
	if stream {
		err = c.streamed(g, d)
	} else {
		err = c.plain(g, d)
	}
	return fate(g.ended, err)
}

func (c *call) plain(g *generation, d dialect) error {
	if err := c.load(); err != nil {
		return err
	}
	p, err := c.finish()
	if err != nil {
		return err
	}
	g.hits, g.loaded = p.hits, p.loaded
	g.handover = c.handover(g)
	return c.answer(d.whole())
}

// streamed sends the head at once and then every token as it comes; tokens that
// came while the client was slow leave together.
func (c *call) streamed(g *generation, d dialect) error {
	e := newEvents(c.rw, c.fault.Cut)
	if err := e.flush(); err != nil {
		return err
	}
	if err := c.load(); err != nil {
		return e.fail(err)
	}
	for sent := 0; sent < g.job.limit; {
		p, err := c.wait()
		if err != nil {
			return err
		}
		g.hits, g.loaded = p.hits, p.loaded
		if sent == 0 {
			d.begin(e)
		}
		for ; sent < p.tokens; sent++ {
			for stream := range g.job.streams {
				d.token(e, stream, g.word(stream, sent))
			}
		}
		if p.finished {
			d.end(e)
		}
		if err := e.flush(); err != nil {
			return err
		}
	}
	return nil
}

// serveHealthGenerate generates one token.
func serveHealthGenerate(c *call) (outcome, error) {
	one := 1
	g, err := c.newGeneration([][]byte{[]byte("health")}, sampling{}, "max_tokens", &one)
	if err != nil {
		return refused, err
	}
	if ended, err := c.submit(g.job); err != nil {
		return ended, err
	}
	if _, err := c.finish(); err != nil {
		return aborted, err
	}
	c.rw.WriteHeader(http.StatusOK)
	return g.ended, nil
}
