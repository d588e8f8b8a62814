// Package manual writes what a shell and a reader of man pages want to know of a
// command line. It knows commands and flags as data only.
package manual

import (
	"fmt"
	"io"
)

// Program is a command line.
type Program struct {
	Name    string
	Version string
	Usage   string // what it is, in lower case, without a full stop
	About   string // the sentences of the description
	// Commands has first the one without a name, which runs when no other is named.
	Commands []Command
}

// Command is what a first word asks for.
type Command struct {
	Name     string
	Usage    string // in lower case, without a full stop
	Synopsis string // what follows the program's name
	Choices  []string
	Flags    []Flag
}

// Flag is a flag without its dashes.
type Flag struct {
	Name     string
	Arg      string // stands for its value; empty if it takes none
	Usage    string // in lower case, without a full stop
	Category string
	Default  string // empty if it has none
	Env      string // the variable that sets it, too
}

// Shells are those that Completion writes for.
var Shells = []string{"bash", "zsh", "fish"}

// Completion writes a script that has a shell complete p's commands and flags.
func Completion(w io.Writer, p Program, shell string) error {
	write := map[string]func(io.Writer, Program) error{"bash": bash, "zsh": zsh, "fish": fish}[shell]
	if write == nil {
		return fmt.Errorf("there is no completion for %q", shell)
	}
	return write(w, p)
}
