package main

// The commands beside the router itself.
const (
	demoCommand       = "demo"
	topCommand        = "top"
	checkCommand      = "check"
	completionCommand = "completion"
	manCommand        = "man"
)

// commandText is how a command is described, and what a word that is no flag means
// to it.
type commandText struct {
	name     string
	usage    string
	synopsis string // what follows its name
	bare     string // the flag whose value such a word is; empty if it is a fault
}

// commands are all of them, in the order of --help.
var commands = []commandText{
	{demoCommand, "route to simulated workers in this process", "[flags]", ""},
	{topCommand, "show what a running router does, in a terminal", "[URL] [flags]", "url"},
	{checkCommand, "ask whether a router is well, for health checks", "[URL]", "url"},
	{completionCommand, "write a script that has a shell complete commands and flags", "[SHELL]", "shell"},
	{manCommand, "write the man page", "", ""},
}

// bareFlag is the flag whose value a word that is no flag is, or "" if it is a fault.
func bareFlag(command string) string {
	for _, c := range commands {
		if c.name == command {
			return c.bare
		}
	}
	return ""
}

// isCommand reports whether word is the name of a command.
func isCommand(word string) bool {
	for _, c := range commands {
		if c.name == word {
			return true
		}
	}
	return false
}

// routes reports whether a command runs a router, and so takes its settings.
func routes(command string) bool { return command == "" || command == demoCommand }

// commandOptions is every flag of a command.
func commandOptions(c *config, command string) []*option {
	switch command {
	case demoCommand:
		return append(options(c), demoOptions(c)...)
	case topCommand:
		return topOptions(&c.Top)
	case checkCommand:
		return checkOptions(&c.Check)
	case completionCommand:
		return completionOptions(&c.Completion)
	case manCommand:
		return nil
	default:
		return options(c)
	}
}
