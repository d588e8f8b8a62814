package manual

import (
	"fmt"
	"io"
	"strings"
)

// Section is a part of a man page with a heading of its own.
type Section struct {
	Title string
	Items [][2]string // what is named, and what it is
}

// Man writes p's page of section 1, in roff. more stands behind the flags.
func Man(w io.Writer, p Program, more ...Section) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s %s\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", strings.ToUpper(p.Name), p.Name, roff(p.Version), p.Name, roff(p.Usage))
	for i, c := range p.Commands {
		if i > 0 {
			b.WriteString(".br\n")
		}
		fmt.Fprintf(&b, ".B %s\n%s\n", strings.TrimSpace(p.Name+" "+c.Name), roff(c.Synopsis))
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n.SH COMMANDS\n", roff(p.About))
	for _, c := range p.Commands[1:] {
		item(&b, c.Name, "", c.Usage)
	}
	seen := map[string]bool{}
	for _, c := range p.Commands {
		title, category := "OPTIONS", ""
		if c.Name != "" {
			title = "OPTIONS OF " + strings.ToUpper(c.Name)
		}
		for _, f := range c.Flags {
			key := f.Name + "\x00" + f.Category
			if seen[key] { // a command that takes the router's flags, too, doesn't repeat them
				continue
			}
			seen[key] = true
			if title != "" {
				fmt.Fprintf(&b, ".SH %s\n", title)
				title = ""
			}
			if c.Name == "" && f.Category != category {
				category = f.Category
				fmt.Fprintf(&b, ".SS %s\n", roff(strings.ToUpper(category[:1])+category[1:]))
			}
			usage := f.Usage
			if f.Default != "" {
				usage += " (default: " + f.Default + ")"
			}
			item(&b, "--"+f.Name, f.Arg, usage+" ["+f.Env+"]")
		}
	}
	for _, s := range more {
		fmt.Fprintf(&b, ".SH %s\n", s.Title)
		for _, i := range s.Items {
			item(&b, i[0], "", i[1])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// item writes what is named, with its argument, and what it is.
func item(b *strings.Builder, name, arg, text string) {
	fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roff(name))
	if arg != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(arg))
	}
	fmt.Fprintf(b, "\n%s\n", roff(text))
}

// roff writes plain text so that none of it is a command to the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
