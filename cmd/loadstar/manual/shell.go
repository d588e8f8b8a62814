package manual

import (
	"fmt"
	"io"
	"strings"
)

// own are the flags that every command has.
var own = []Flag{{Name: "help", Usage: "show help"}, {Name: "version", Usage: "print the version"}}

// flags are all that may follow c.
func (c Command) flags() []Flag { return append(c.Flags[:len(c.Flags):len(c.Flags)], own...) }

// words are the names of p's commands, separated by spaces.
func (p Program) words() string {
	var names []string
	for _, c := range p.Commands[1:] {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// pattern is how a shell's case matches c's name; the one without matches all else.
func (c Command) pattern() string {
	if c.Name == "" {
		return "*"
	}
	return c.Name
}

// last gives commands with the one without a name at their end, where its pattern
// leaves the others theirs.
func last(all []Command) []Command { return append(all[1:len(all):len(all)], all[0]) }

func bash(w io.Writer, p Program) error {
	var flags, choices strings.Builder
	for _, c := range last(p.Commands) {
		var names []string
		for _, f := range c.flags() {
			names = append(names, "--"+f.Name)
		}
		fmt.Fprintf(&flags, "\t\t%s) words=%q ;;\n", c.pattern(), strings.Join(names, " "))
		if len(c.Choices) > 0 {
			fmt.Fprintf(&choices, "\t\t%s) words=%q ;;\n", c.Name, strings.Join(c.Choices, " "))
		}
	}
	_, err := fmt.Fprintf(w, `# bash completion of %[1]s: source it, or put it into bash-completion's directory as %[1]s
_%[1]s() {
	local cur=${COMP_WORDS[COMP_CWORD]} words= word
	COMPREPLY=()
	if [[ $cur == -* ]]; then
		case ${COMP_WORDS[1]} in
%[2]s		esac
	elif ((COMP_CWORD == 1)); then
		words=%[3]q
	else
		case ${COMP_WORDS[1]} in
%[4]s		esac
	fi
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen -W "$words" -- "$cur")
}
complete -o default -F _%[1]s %[1]s
`, p.Name, flags.String(), p.words(), choices.String())
	return err
}

func zsh(w io.Writer, p Program) error {
	var commands, flags, choices strings.Builder
	described := func(name, usage string) string {
		return single(strings.ReplaceAll(name, ":", `\:`)+":"+usage, `'\''`, `\`)
	}
	for _, c := range last(p.Commands) {
		fmt.Fprintf(&flags, "\t\t%s) entries=(\n", c.pattern())
		for _, f := range c.flags() {
			fmt.Fprintf(&flags, "\t\t\t%s\n", described("--"+f.Name, f.Usage))
		}
		flags.WriteString("\t\t) ;;\n")
		if c.Name != "" {
			fmt.Fprintf(&commands, "\t\t\t%s\n", described(c.Name, c.Usage))
		}
		if len(c.Choices) > 0 {
			fmt.Fprintf(&choices, "\t\t%s) compadd -- %s ;;\n", c.Name, strings.Join(c.Choices, " "))
		}
	}
	_, err := fmt.Fprintf(w, `#compdef %[1]s
# zsh completion of %[1]s: put it into a directory of $fpath as _%[1]s, or source it
_%[1]s() {
	local -a entries
	if [[ $PREFIX == -* ]]; then
		case $words[2] in
%[2]s		esac
		_describe -o flag entries
	elif ((CURRENT == 2)); then
		entries=(
%[3]s		)
		_describe command entries
	else
		case $words[2] in
%[4]s		*) _files ;;
		esac
	fi
}
if [[ $funcstack[1] == _%[1]s ]]; then
	_%[1]s "$@"
else
	compdef _%[1]s %[1]s
fi
`, p.Name, flags.String(), commands.String(), choices.String())
	return err
}

func fish(w io.Writer, p Program) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion of %[1]s: put it into ~/.config/fish/completions as %[1]s.fish\n", p.Name)
	text := func(s string) string { return single(s, `\'`, `\`) }
	for _, c := range p.Commands {
		when := "__fish_seen_subcommand_from " + c.Name
		if c.Name == "" {
			when = "not __fish_seen_subcommand_from " + p.words()
		} else {
			fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -f -a %s -d %s\n", p.Name, c.Name, text(c.Usage))
		}
		for _, f := range c.flags() {
			takes := ""
			if f.Arg != "" {
				takes = " -r"
			}
			fmt.Fprintf(&b, "complete -c %s -n %s -l %s%s -d %s\n", p.Name, text(when), f.Name, takes, text(f.Usage))
		}
		if len(c.Choices) > 0 {
			fmt.Fprintf(&b, "complete -c %s -n %s -f -a %s\n", p.Name, text(when), text(strings.Join(c.Choices, " ")))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// single puts s into single quotes; quote is how the shell writes one within them,
// and the characters of escaped get a backslash.
func single(s, quote, escaped string) string {
	for _, r := range escaped {
		s = strings.ReplaceAll(s, string(r), `\`+string(r))
	}
	return "'" + strings.ReplaceAll(s, "'", quote) + "'"
}
