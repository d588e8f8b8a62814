package statuspage

import (
	"crypto/sha256"
	_ "embed" // for the page's parts
	"encoding/base64"
	"strings"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// Page is the status page: one document that needs nothing else. It holds no figure
// and no name; what it shows it asks for.
var Page = []byte(strings.NewReplacer("{{style}}", pageCSS, "{{script}}", pageJS).Replace(pageHTML))

// Policy is the Content-Security-Policy of Page. It runs its own script and no
// other, reaches nothing but the router, is in nobody's frame, and can make no
// markup of text.
var Policy = "default-src 'none'; script-src '" + digest(pageJS) + "'; style-src '" + digest(pageCSS) + "'; " +
	"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
