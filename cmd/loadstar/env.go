package main

import (
	"strings"
	"unicode"
)

// environment looks a variable up, as os.LookupEnv does. The nil environment
// is empty.
type environment func(name string) (string, bool)

// envName is the variable that stands for a flag: LOADSTAR_MAX_TREE_SIZE for
// --max-tree-size.
func envName(flag string) string {
	return "LOADSTAR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// lookup gives the value of a variable, and false if it is absent or empty.
//
// Kubernetes puts NAME_PORT=tcp://10.0.0.1:30000 into every container beside a
// service called NAME, so a service called loadstar sets LOADSTAR_PORT. No flag
// takes such a value, so it counts as absent.
func (e environment) lookup(name string) (string, bool) {
	if e == nil {
		return "", false
	}
	value, ok := e(name)
	for _, link := range []string{"tcp://", "udp://", "sctp://"} {
		if strings.HasPrefix(value, link) {
			return "", false
		}
	}
	return value, ok && value != ""
}

// splitList splits a list in the environment, on spaces and commas.
func splitList(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// refusedByEnvironment reports each refused flag that a variable asks for.
func refusedByEnvironment(env environment) []error {
	var faults []error
	for _, name := range refusedFlags() {
		r := refused[name]
		for _, variable := range []string{envName(name), r.env} {
			value, ok := env.lookup(variable)
			if !ok {
				continue
			}
			if err := r.refuse(variable, splitList(value)); err != nil {
				faults = append(faults, err)
			}
		}
	}
	return faults
}
