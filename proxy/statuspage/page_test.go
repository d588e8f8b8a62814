package statuspage

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
)

// TestPagePolicy: the policy allows what the page holds, and nothing that it
// doesn't; the page asks nobody but the router for anything.
func TestPagePolicy(t *testing.T) {
	for _, part := range []string{"script", "style"} {
		all := regexp.MustCompile(`(?s)<`+part+`>(.*?)</`+part+`>`).FindAllSubmatch(Page, -1)
		if len(all) != 1 {
			t.Fatalf("%d elements %s, want 1", len(all), part)
		}
		sum := sha256.Sum256(all[0][1])
		want := part + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"
		if !strings.Contains(Policy, want) {
			t.Errorf("policy %s, want %s in it", Policy, want)
		}
	}
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(Policy, want) {
			t.Errorf("policy %s, want %s in it", Policy, want)
		}
	}
	if strings.Contains(Policy, "unsafe") || strings.Contains(Policy, "*") {
		t.Errorf("policy %s, want nothing unsafe in it", Policy)
	}
	outside := regexp.MustCompile(`(?i)https?://[^'"\s]*|\bsrc=|@import|url\(|\sstyle=|\son\w+=`)
	for _, m := range outside.FindAllString(string(Page), -1) {
		if m != "http://www.w3.org/2000/svg" { // a name
			t.Errorf("the page has %q, want everything in it and named by its hash", m)
		}
	}
}

// TestPageSetsText: nothing that the script gets is ever made markup, code or
// kept.
func TestPageSetsText(t *testing.T) {
	for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "DOMParser", "setHTML", "srcdoc", ".href", "localStorage", "sessionStorage", "cookie", "createContextualFragment"} {
		if strings.Contains(pageJS, word) {
			t.Errorf("the script has %s", word)
		}
	}
	for _, m := range regexp.MustCompile(`setAttribute\(('?[\w-]+)`).FindAllStringSubmatch(pageJS, -1) {
		switch strings.Trim(m[1], "'") {
		case "role", "aria-label", "aria-pressed", "viewBox", "preserveAspectRatio", "points":
		default:
			t.Errorf("the script sets the attribute %s", m[1])
		}
	}
}
