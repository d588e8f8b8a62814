package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

const completionsPath = "/v1/completions"

// answerTokens are what every talker generates: quotes, escapes, characters of
// several bytes, and one beyond the basic plane.
var answerTokens = []string{"Say", " \"hello\"", ",\n", "\tπ", " is", " 😀", " and", " <b>\\", "é", " end."}

// talker is an engine that generates the same text always, and goes on from where
// a request leaves off.
type talker struct {
	name string // makes its ids its own
	die  func(x *proxytest.Exchange) bool
	at   int // tokens behind which a request that begins the text meets die
	hold int // tokens behind which one that goes on waits to be released; 0 for none
	also int // tokens behind which one that goes on meets die; 0 for none
}

// asked is what a talker reads of a request.
type asked struct {
	Prompt    *string
	Messages  []struct{ Role, Content string }
	Continue  bool  `json:"continue_final_message"`
	Generate  *bool `json:"add_generation_prompt"`
	MaxTokens *int  `json:"max_tokens"`
	MinTokens *int  `json:"min_tokens"`
	Options   struct {
		Usage      bool `json:"include_usage"`
		Continuous bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

// soFar is the text that a request begins with.
func (a *asked) soFar() string {
	if a.Prompt != nil {
		_, text, _ := strings.Cut(*a.Prompt, "Q:")
		return text
	}
	if last := a.Messages[len(a.Messages)-1]; a.Continue && last.Role == "assistant" && a.Generate != nil && !*a.Generate {
		return last.Content
	}
	return ""
}

const promptTokens = 7

func (k *talker) script(x *proxytest.Exchange) {
	var a asked
	if err := json.Unmarshal(x.Body(), &a); err != nil {
		x.Reply(400, err.Error())
		return
	}
	first := 0
	for text := a.soFar(); text != ""; first++ {
		var ok bool
		if first < len(answerTokens) {
			text, ok = strings.CutPrefix(text, answerTokens[first])
		}
		if !ok {
			x.Reply(400, "no beginning of the answer")
			return
		}
	}
	end, reason := len(answerTokens), "stop"
	if a.MaxTokens != nil && first+*a.MaxTokens <= end {
		end, reason = first+*a.MaxTokens, "length"
	}
	e := engineStream{x: x, a: &a, id: fmt.Sprintf("%s-%d", k.name, first), prompt: promptTokens + first}
	x.SSEHead()
	e.begin()
	for i := first; ; i++ {
		if die := first == 0 && i == k.at || first > 0 && i == k.also; die && k.die != nil && k.die(x) {
			return
		}
		if first > 0 && i == k.hold && !x.Hold() {
			return
		}
		if i == end {
			break
		}
		e.token(answerTokens[i])
	}
	e.end(reason)
}

// engineStream writes events as vLLM does.
type engineStream struct {
	x              *proxytest.Exchange
	a              *asked
	id             string
	prompt, tokens int
}

func (e *engineStream) usage() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}`, e.prompt, e.prompt+e.tokens, e.tokens)
}

func (e *engineStream) send(choice, usage string) {
	if usage != "" {
		usage = `,"usage":` + usage
	}
	created := 1000 + len(e.id) + int(e.id[0])
	e.x.Event(fmt.Sprintf(`{"id":%q,"object":"chunk","created":%d,"model":"m","choices":[%s]%s}`, e.id, created, choice, usage))
}

func (e *engineStream) continuous() string {
	if e.a.Options.Continuous {
		return e.usage()
	}
	return ""
}

func (e *engineStream) begin() {
	if e.a.Prompt == nil {
		e.send(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`, e.continuous())
	}
}

func (e *engineStream) token(text string) {
	e.tokens++
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	if e.a.Prompt == nil {
		e.send(fmt.Sprintf(`{"index":0,"delta":{"content":%s},"logprobs":null,"finish_reason":null}`, b), e.continuous())
		return
	}
	e.send(fmt.Sprintf(`{"index":0,"text":%s,"logprobs":null,"finish_reason":null}`, b), e.continuous())
}

func (e *engineStream) end(reason string) {
	if e.a.Prompt == nil {
		e.send(fmt.Sprintf(`{"index":0,"delta":{},"logprobs":null,"finish_reason":%q}`, reason), e.continuous())
	} else {
		e.send(fmt.Sprintf(`{"index":0,"text":"","logprobs":null,"finish_reason":%q}`, reason), e.continuous())
	}
	if e.a.Options.Usage {
		e.send("", e.usage())
	}
	e.x.Done()
	e.x.EndChunks()
}

// failingOver are options by which streams are continued once.
func failingOver() Options {
	o := testOptions("round_robin")
	o.Failover = FailoverOptions{Continuations: 1, TextBytes: 256 << 10, MemoryBytes: 64 << 20}
	return o
}

// failoverRequest is a request of either API, with more members at its end.
func failoverRequest(path, more string) string {
	if path == chatPath {
		return `{ "model":"m", "messages": [ {"role":"user","content":"Q:"} ] ,"stream" : true,"temperature":0.10` + more + "}"
	}
	return `{ "model":"m", "prompt" : "Q:" ,"stream" : true,"temperature":0.10,"max_tokens":32` + more + "}"
}

// failoverPair is two talkers behind a router. The first request meets a, and what
// follows it b.
type failoverPair struct {
	*router
	a, b *proxytest.Worker
}

// startFailover starts a pair of which a worker that begins a text dies behind at
// tokens.
func startFailover(t testing.TB, o Options, at int, die func(x *proxytest.Exchange) bool) *failoverPair {
	t.Helper()
	return startTalkers(t, o, talker{at: at, die: die})
}

func startTalkers(t testing.TB, o Options, k talker) *failoverPair {
	t.Helper()
	k.name = "A"
	a := proxytest.NewWorker(t, k.script)
	other := k
	other.name = "B"
	b := proxytest.NewWorker(t, other.script)
	return &failoverPair{startRouter(t, o, a, b), a, b}
}

// order names the workers by who was asked first.
func (p *failoverPair) order() (first, second *proxytest.Worker) {
	if len(p.a.Seen()) == 0 || len(p.b.Seen()) > 0 && p.b.Seen()[0].ArrivedAt.Before(p.a.Seen()[0].ArrivedAt) {
		return p.b, p.a
	}
	return p.a, p.b
}

// whole is the stream that a worker sends which doesn't die.
func whole(t testing.TB, name, path, body string) []byte {
	t.Helper()
	k := talker{name: name}
	r := startRouter(t, testOptions("round_robin"), proxytest.NewWorker(t, k.script))
	return ask(t, r, path, body).Body
}

// nameOf is the talker's name of a worker.
func (p *failoverPair) nameOf(w *proxytest.Worker) string {
	if w == p.a {
		return "A"
	}
	return "B"
}

// failovers is what the metrics say: continued and failed.
func (p *failoverPair) failovers() [2]uint64 {
	m := &p.metrics.failover
	return [2]uint64{m.continued.Get(), m.failed.Get()}
}

// wantIdle waits until nothing counts and no memory is held, and fails the test
// unless n leases were granted.
func (p *failoverPair) wantIdle(n uint64) {
	p.t.Helper()
	p.wait("idle workers", func(v *actors.Snapshot) bool { return v.Live == 0 && v.Granted == v.Returned })
	p.eventually("a free budget", func() bool { return len(p.spares) == 0 || p.metrics.inFlight.Get() > 0 })
	if v := p.snapshot(); v.Granted != n {
		p.t.Errorf("%d leases granted, want %d", v.Granted, n)
	}
}

// eventually waits until cond holds.
func (r *router) eventually(what string, cond func() bool) {
	r.t.Helper()
	r.wait(what, func(*actors.Snapshot) bool { return cond() })
}
