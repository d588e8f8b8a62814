package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// stage says whether what is refused will ever be there.
type stage uint8

const (
	later stage = iota // a planned feature
	never              // deliberately absent
)

// refusal is a flag, or one value of a flag, of vllm-router that is known and
// not taken. Silence would be worse: the router would run without what the
// operator asked for.
type refusal struct {
	when     stage
	sentence string   // why, and what to do
	harmless []string // values that ask for nothing beyond what is done anyway; they pass
	env      string   // a variable of vllm-router that asks for the same
	rust     bool     // only vllm-router's Rust front end has the flag
}

// off is the harmless value of a flag that switches something on.
var off = []string{"false"}

// What the refusals say, one sentence for each feature.
const (
	comesPrograms = "it comes with program scheduling; leave it out"
	noWASM        = "there is no WASM runtime in this router; leave it out and change requests in front of it"
	noBackends    = "workers speak vLLM's or OpenAI's HTTP API; give vllm or openai, or leave it out"
)

// refused is everything that is refused by name, and the only place that says
// so. A key is a flag without its dashes, flag=value for one value of a flag that
// is otherwise taken, or flag=scheme:// for worker URLs.
var refused = map[string]refusal{
	"enable-program-scheduling":      {when: later, sentence: comesPrograms, harmless: off},
	"program-scheduling-config-json": {when: later, sentence: comesPrograms},
	"api-key-validation-urls":        {when: never, sentence: "keys are checked here; leave it out and give them by --client-api-keys-file", env: "API_KEY_VALIDATION_URLS", rust: true},

	"wasm-middleware":        {when: never, sentence: noWASM},
	"wasm-middleware-sha256": {when: never, sentence: noWASM},
	"wasm-middleware-route":  {when: never, sentence: noWASM},
	"mini-lb":                {when: never, sentence: "there is no second, simpler balancer in here; leave it out", harmless: off},
	"backend":                {when: never, sentence: noBackends, harmless: []string{"vllm", "openai"}, rust: true},
	"runtime":                {when: never, sentence: noBackends, harmless: []string{"vllm", "openai"}, rust: true},
	"history-backend":        {when: never, sentence: "conversations are kept by the workers, not here; leave it out", rust: true},
	"epd-config":             {when: never, sentence: "encoders of their own are not routed to; leave it out", rust: true},
	"profile":                {when: never, sentence: "workers are profiled directly, and this router by --debug-endpoints; leave it out", harmless: off, rust: true},
	"worker-urls=grpc://":    {when: never, sentence: "workers are spoken to over HTTP; start the engine's OpenAI server and give its http:// URL"},

	"worker-tls-insecure-skip-verify": {when: never, sentence: "a worker whose certificate is not verified may be anybody; leave it out and give the certificate's authority by --worker-tls-ca"},
}

// refusedFlags lists the flags that are refused, in order, without the single
// values.
func refusedFlags() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if !strings.Contains(name, "=") {
			names = append(names, name)
		}
	}
	return names
}

// refuse gives the error for subject, which was given values, or nil if they are
// harmless. Values are not quoted: some of these flags carry secrets.
func (r refusal) refuse(subject string, values []string) error {
	if len(values) == 1 && slices.ContainsFunc(r.harmless, func(h string) bool { return sameValue(h, values[0]) }) {
		return nil
	}
	return r.error(subject)
}

func (r refusal) error(subject string) error {
	if r.when == never {
		return fmt.Errorf("%s is not supported: %w", subject, errors.New(r.sentence))
	}
	return fmt.Errorf("%s is not in this version: %w", subject, errors.New(r.sentence))
}

// sameValue compares two values of a flag as the flag would: 0.0 is 0 and True
// is true.
func sameValue(a, b string) bool {
	if x, err := strconv.ParseFloat(a, 64); err == nil {
		y, err := strconv.ParseFloat(b, 64)
		return err == nil && x == y
	}
	return strings.EqualFold(a, b)
}
