package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"
)

// origin says where a flag comes from. Abbreviations are looked up in this
// order, so that a flag of ours never makes an abbreviation ambiguous that
// vllm-router understands.
type origin uint8

const (
	python  origin = iota // both front ends of vllm-router, or its Python one
	rust                  // its Rust front end only
	ours                  // not in vllm-router
	origins               // how many there are
)

// option is one flag. It is a cli.Flag, so that cli can print and parse it, but
// Set only takes note of the text: read turns it into settings and reports all
// that is wrong, where cli would stop at the first fault.
type option struct {
	name     string
	category string // its heading in --help
	arg      string // what stands for the value in texts; empty for a switch
	usage    string // a sentence in lower case
	def      string // the default as one would type it; a list's values are separated by spaces
	implied  string // what the default is when it is not a fixed value
	from     origin
	differs  string // how it differs from vllm-router's flag of that name; empty if not at all

	presume func(env environment) string // gives the default where it goes by other options; those before it have been read; nil else

	// Exactly one of these is set. Each takes what was typed and returns what is
	// wrong with it, without the flag's name.
	one  func(value string) error
	many func(values []string) []error

	also   string // a variable of the environment that everybody knows and that stands for it too; empty for none
	needs  string // for a list that may not be empty: what at least one is needed of
	secret bool   // its values are never quoted
	joined bool   // for a list: what follows a URL belongs to it; see joinPorts

	given  bool
	values []string
}

// options is every flag of the router, in the order in which they are read.
func options(c *config) []*option {
	var all []*option
	for _, group := range [][]*option{
		listenOptions(c), accessOptions(&c.Access), httpOptions(c), workerOptions(&c.Workers), workerTLSOptions(&c.WorkerTLS), modelOptions(&c.Models), sourceOptions(&c.Sources), policyOptions(c), kvOptions(&c.KV),
		healthOptions(&c.Health), retryOptions(c), failoverOptions(&c.Failover), breakerOptions(&c.Breaker), containmentOptions(&c.Containment),
		timeoutOptions(&c.Timeouts), clientOptions(&c.Timeouts), pdOptions(c), peersOptions(&c.Peers), limitOptions(&c.Limits), admissionOptions(&c.Admission),
		metricsOptions(&c.Metrics), traceOptions(&c.Tracing), loggingOptions(&c.Logging), shutdownOptions(&c.Shutdown),
	} {
		all = append(all, group...)
	}
	return all
}

// read puts the option's default into the config and then what was given for
// it, on the command line or else in the environment. A value that is wrong
// leaves the default in place.
func (o *option) read(env environment) []error {
	if o.def != "" || o.presume != nil {
		if faults := o.take("the default of --"+o.name, o.defaults(env)); len(faults) > 0 {
			return faults
		}
	}
	subject, values, ok := o.source(env)
	if !ok {
		return nil
	}
	return o.take(subject, values)
}

func (o *option) defaults(env environment) []string {
	switch {
	case o.presume != nil:
		return []string{o.presume(env)}
	case o.many != nil:
		return strings.Fields(o.def)
	default:
		return []string{o.def}
	}
}

// source says where the option's value comes from, and gives it.
func (o *option) source(env environment) (subject string, values []string, ok bool) {
	if o.given {
		return "--" + o.name, o.values, true
	}
	variable := envName(o.name)
	value, ok := env.lookup(variable)
	if !ok && o.also != "" {
		variable = o.also
		value, ok = env.lookup(variable)
	}
	if o.many != nil {
		return variable, o.join(splitList(value)), ok
	}
	return variable, []string{value}, ok
}

// join makes of a list's arguments its values.
func (o *option) join(args []string) []string {
	if o.joined {
		return joinPorts(args)
	}
	return args
}

// take reads values and puts subject in front of each fault.
func (o *option) take(subject string, values []string) []error {
	var faults []error
	switch {
	case o.many != nil && o.needs != "" && len(values) == 0:
		return []error{fmt.Errorf("%s needs at least one %s", subject, o.needs)}
	case o.many != nil:
		faults = o.many(values)
	default:
		if err := o.one(values[len(values)-1]); err != nil { // the last one counts
			faults = []error{err}
		}
	}
	for i, err := range faults {
		var r refusedValue
		if errors.As(err, &r) {
			faults[i] = r.of(subject)
			continue
		}
		faults[i] = fmt.Errorf("%s: %w", subject, err)
	}
	return faults
}

// isSwitch reports whether the option needs no value.
func (o *option) isSwitch() bool { return o.arg == "" }

// Apply makes the flag known to the standard library's parser, for cli.
func (o *option) Apply(set *flag.FlagSet) error {
	set.Var((*typed)(o), o.name, o.usage)
	return nil
}

// Names gives the flag's one name, for cli.
func (o *option) Names() []string { return []string{o.name} }

// IsSet reports whether the flag was given, for cli.
func (o *option) IsSet() bool { return o.given }

// IsVisible puts the flag into --help, for cli.
func (o *option) IsVisible() bool { return true }

// GetCategory gives the flag's heading, for cli.
func (o *option) GetCategory() string { return o.category }

// String is the flag's entry in --help: its name on a line, and below it what
// it does.
func (o *option) String() string {
	head := "--" + o.name
	if o.arg != "" {
		head += " " + o.arg
	}
	text := o.usage
	if d := o.defaultText(); d != "" {
		text += " (default: " + d + ")"
	}
	return head + "\n" + wrap(text+" ["+envName(o.name)+"]", 9, 96)
}

// defaultText is the default in words, or "" if there is none to speak of.
func (o *option) defaultText() string {
	if o.implied != "" {
		return o.implied
	}
	return o.def
}

// wrap breaks text into lines of at most width columns, each behind indent spaces.
func wrap(text string, indent, width int) string {
	var b strings.Builder
	column := width // so that the first word begins a line
	for _, word := range strings.Fields(text) {
		switch n := len([]rune(word)); {
		case column+1+n <= width:
			b.WriteByte(' ')
			column += 1 + n
		default:
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(strings.Repeat(" ", indent))
			column = indent + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// typed is an option as the standard library's parser sees it.
type typed option

// Set notes one value. An empty one only says that the list was given.
func (t *typed) Set(value string) error {
	t.given = true
	if value == "" && t.many != nil {
		return nil
	}
	t.values = append(t.values, value)
	return nil
}

// String is asked by the standard library for a default to print; cli prints its own.
func (t *typed) String() string { return "" }
