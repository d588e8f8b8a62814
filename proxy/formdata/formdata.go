// Package formdata finds a field in a form as browsers and clients of audio and image
// APIs send it, multipart/form-data, so that it can be looked at and replaced where it
// lies: the bytes of the form, and of the files in it, stay as they are.
package formdata

import (
	"bufio"
	"bytes"
	"mime"
	"net/textproto"
	"strings"
)

// Bounds of forms that are read.
const (
	maxParts    = 128
	maxHead     = 8 << 10 // bytes of the lines before a part's content
	maxBoundary = 70      // by RFC 2046
)

// Field returns where in a form the value of the field with this name lies, that of the
// last one if there are several: body[from:to]. Files are no fields. It reports false
// if there is none, and for what is not, to its end, a form as RFC 7578 wants it: an
// engine might read it otherwise. It keeps nothing of the body.
func Field(body, contentType []byte, name string) (from, to int, ok bool) {
	delimiter := delimiterOf(contentType)
	if delimiter == "" {
		return 0, 0, false
	}
	s := scanner{body: body, delimiter: []byte("\r\n" + delimiter)}
	if !s.begin() {
		return 0, 0, false
	}
	for range maxParts {
		if s.last {
			return from, to, ok
		}
		head, content, whole := s.part()
		if !whole {
			break
		}
		is, readable := isField(head, name)
		if !readable {
			break
		}
		if is {
			from, to, ok = content, s.end, true
		}
	}
	return 0, 0, false
}

// delimiterOf is the line that a Content-Type says to stand between parts, without its
// ends; empty if that is no form's.
func delimiterOf(contentType []byte) string {
	const form = "multipart/form-data"
	if len(contentType) < len(form) || !strings.EqualFold(string(contentType[:len(form)]), form) {
		return ""
	}
	kind, params, err := mime.ParseMediaType(string(contentType))
	if b := params["boundary"]; err == nil && kind == form && b != "" && len(b) <= maxBoundary {
		return "--" + b
	}
	return ""
}

// scanner goes from delimiter to delimiter.
type scanner struct {
	body      []byte
	delimiter []byte // with the line end before it, which is part of it
	at        int    // where the part begins that is next
	end       int    // where the content of the part before ends
	last      bool   // no part is next
}

// begin goes to the first part.
func (s *scanner) begin() bool {
	line := s.delimiter[len("\r\n"):]
	for at := 0; ; {
		i := bytes.Index(s.body[at:], line)
		if i < 0 {
			return false
		}
		at += i
		switch start := at == 0 || s.body[at-1] == '\n'; {
		case !start:
			at++
			continue
		case at > 0 && (at < 2 || s.body[at-2] != '\r'):
			return false // lines that end otherwise
		}
		at += len(line)
		if is, ok := s.delimits(at); is || !ok {
			return ok
		}
	}
}

// delimits looks at what follows a delimiter that ends at a place: it is one only if
// its line ends there. ok is false if that can be read in two ways.
func (s *scanner) delimits(at int) (is, ok bool) {
	rest := s.body[at:]
	if len(rest) == 0 {
		return false, false
	}
	switch rest[0] {
	case ' ', '\t', '\r', '\n', '-':
	default:
		return false, true // a longer line that begins alike
	}
	rest, s.last = bytes.CutPrefix(rest, []byte("--"))
	rest = bytes.TrimLeft(rest, " \t")
	s.at = len(s.body) - len(rest) + len("\r\n")
	return true, bytes.HasPrefix(rest, []byte("\r\n")) || s.last && len(rest) == 0
}

// part returns the head of the part that is next and where its content begins, and
// goes to the part behind it.
func (s *scanner) part() (head []byte, content int, ok bool) {
	rest := s.body[s.at:min(s.at+maxHead, len(s.body))]
	const blank = "\r\n\r\n"
	i := bytes.Index(rest, []byte(blank))
	if i < 0 {
		return nil, 0, false
	}
	head, content = rest[:i+len(blank)], s.at+i+len(blank)
	if bytes.HasPrefix(s.body[content:], s.delimiter[len("\r\n"):]) {
		return nil, 0, false // the line end before it is the head's
	}
	for at := content; ; {
		i := bytes.Index(s.body[at:], s.delimiter)
		if i < 0 {
			return nil, 0, false
		}
		s.end = at + i
		at = s.end + len(s.delimiter)
		if is, ok := s.delimits(at); is || !ok {
			return head, content, ok
		}
	}
}

// isField reports whether the head of a part is that of a field with this name, and
// whether it could be read.
func isField(head []byte, name string) (is, ok bool) {
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(head))).ReadMIMEHeader()
	if err != nil {
		return false, false
	}
	const disposition = "Content-Disposition"
	all := h[disposition]
	if len(all) != 1 {
		return false, false
	}
	kind, params, err := mime.ParseMediaType(all[0])
	if err != nil || kind != "form-data" {
		return false, false
	}
	_, file := params["filename"]
	return params["name"] == name && !file, true
}
