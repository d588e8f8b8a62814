package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// commandLine is an argument list in the one form that cli reads without
// surprises: a command, then each value as --name=value. What cannot be put into
// that form is a fault; so is every flag that is refused.
type commandLine struct {
	command string // empty for the router itself
	args    []string
	faults  []error
}

// The names of cli's own flags, which end everything else.
const (
	helpFlag    = "help"
	versionFlag = "version"
)

// normalise reads an argument list as vllm-router's front ends do, which cli
// does not: a list takes all values up to the next flag, a switch takes a bare
// true or false, and a long name may be cut short where that is unambiguous.
// known gives the flags of a command.
func normalise(args []string, known func(command string) []*option) commandLine {
	var line commandLine
	if len(args) > 0 && isCommand(args[0]) {
		line.command, args = args[0], args[1:]
	}
	words := newVocabulary(known(line.command))
	secret := "" // the flag that was last, if its values are secrets
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if bare := bareFlag(line.command); bare != "" && !isFlag(arg) && secret == "" {
			line.add(bare, arg)
			continue
		}
		if !isFlag(arg) && secret != "" {
			line.fault(fmt.Errorf("unexpected argument behind the value of --%s: is there a space in that value?", secret))
			continue
		}
		if !isFlag(arg) {
			line.fault(fmt.Errorf("unexpected argument %q: flags begin with two dashes, several values follow their flag separated by spaces, and a command such as demo or top comes first; --help lists them", arg))
			continue
		}
		typed, value, inline := strings.Cut(arg, "=")
		values := []string{value}
		if !inline {
			values = args[:leadingValues(args)]
		}
		name, err := words.resolve(typed)
		if name == helpFlag || name == versionFlag {
			line.args = []string{"--" + name}
			if name == versionFlag {
				line.command = "" // cli knows it at the top only
			}
			line.faults = nil
			return line
		}
		if err != nil && secret != "" && !strings.HasPrefix(arg, "--") {
			err = fmt.Errorf("what follows --%[1]s is not a flag: write --%[1]s=%[2]s if the value begins with a dash", secret, words.options[secret].arg)
		}
		if secret = ""; err == nil && words.options[name] != nil && words.options[name].secret {
			secret = name
		}
		used := 0
		if err != nil {
			line.fault(err)
			used = len(values)
		} else {
			used = line.take(words, name, values, inline)
		}
		if !inline {
			args = args[used:]
		}
	}
	return line
}

// take adds the flag with those of the values that belong to it, and says how
// many these are.
func (l *commandLine) take(words vocabulary, name string, values []string, inline bool) (used int) {
	o, ok := words.options[name]
	switch {
	case !ok:
		if err := refused[name].refuse("--"+name, values); err != nil {
			l.fault(err)
		}
		return len(values)
	case o.many != nil:
		if len(values) == 0 {
			l.add(name, "")
		}
		for _, v := range o.join(values) {
			l.add(name, v)
		}
		return len(values)
	case inline:
		l.add(name, values[0])
		return 1
	case o.isSwitch():
		if len(values) > 0 && isBool(values[0]) {
			l.add(name, values[0])
			return 1
		}
		l.add(name, "true")
		return 0
	case len(values) == 0:
		l.fault(fmt.Errorf("--%s needs a value: write --%s %s, or --%s=%s if it begins with a dash", name, name, o.arg, name, o.arg))
		return 0
	}
	l.add(name, values[0])
	return 1
}

func (l *commandLine) add(name, value string) {
	l.args = append(l.args, "--"+name+"="+value)
}

// fault notes err, once: --selector three times is one thing to take out.
func (l *commandLine) fault(err error) {
	for _, known := range l.faults {
		if known.Error() == err.Error() {
			return
		}
	}
	l.faults = append(l.faults, err)
}

// isFlag reports whether arg begins a flag. A negative number does not: no flag
// looks like one, so it can only be a value.
func isFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	_, err := strconv.ParseFloat(arg, 64)
	return err != nil
}

// leadingValues counts the arguments before the next flag.
func leadingValues(args []string) int {
	if n := slices.IndexFunc(args, isFlag); n >= 0 {
		return n
	}
	return len(args)
}

func isBool(s string) bool {
	return strings.EqualFold(s, "true") || strings.EqualFold(s, "false")
}

// vocabulary is every name that is understood: the flags that are taken, those
// that are refused, and cli's own two.
type vocabulary struct {
	options map[string]*option
	names   [origins][]string // sorted
}

func newVocabulary(known []*option) vocabulary {
	v := vocabulary{options: make(map[string]*option, len(known))}
	v.names[python] = []string{helpFlag}
	v.names[rust] = []string{versionFlag}
	for _, o := range known {
		v.options[o.name] = o
		v.names[o.from] = append(v.names[o.from], o.name)
	}
	for _, name := range refusedFlags() {
		from := python
		if refused[name].rust {
			from = rust
		}
		v.names[from] = append(v.names[from], name)
	}
	for _, names := range v.names {
		slices.Sort(names)
	}
	return v
}

// has reports whether name is written out in full.
func (v vocabulary) has(name string) bool {
	return slices.ContainsFunc(v.names[:], func(names []string) bool {
		_, ok := slices.BinarySearch(names, name)
		return ok
	})
}

// resolve gives the flag that was meant by what was typed, dashes included.
func (v vocabulary) resolve(typed string) (string, error) {
	switch typed {
	case "-h":
		return helpFlag, nil
	case "-v", "-V":
		return versionFlag, nil
	}
	word, long := strings.CutPrefix(typed, "--")
	if !long {
		word = typed[1:]
		if v.has(word) {
			return "", fmt.Errorf("%s: flags begin with two dashes: write --%s", typed, word)
		}
		return "", v.unknown(typed, word)
	}
	if v.has(word) {
		return word, nil
	}
	for _, names := range v.names {
		first, _ := slices.BinarySearch(names, word)
		matches := 0
		for first+matches < len(names) && word != "" && strings.HasPrefix(names[first+matches], word) {
			matches++
		}
		switch {
		case matches == 1:
			return names[first], nil
		case matches > 1:
			return "", fmt.Errorf("%s may be --%s: write the name out", typed, strings.Join(names[first:first+matches], " or --"))
		}
	}
	return "", v.unknown(typed, word)
}

func (v vocabulary) unknown(typed, word string) error {
	if near := nearest(word, slices.Concat(v.names[:]...)); near != "" {
		return fmt.Errorf("%s is not a flag: did you mean --%s?", typed, near)
	}
	return fmt.Errorf("%s is not a flag: see --help", typed)
}
