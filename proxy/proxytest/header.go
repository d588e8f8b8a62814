package proxytest

import (
	"fmt"
	"strconv"
	"strings"
)

// A Header is one header line. Name keeps the case it has on the wire; Value
// has no white space around it.
type Header struct {
	Name  string
	Value string
}

// H is a Header in fewer letters.
func H(name, value string) Header { return Header{name, value} }

// headerValues returns the values of all lines called name, in any case.
func headerValues(hs []Header, name string) []string {
	var vs []string
	for _, h := range hs {
		if strings.EqualFold(h.Name, name) {
			vs = append(vs, h.Value)
		}
	}
	return vs
}

// headerValue returns the first value called name, in any case, or "".
func headerValue(hs []Header, name string) string {
	for _, h := range hs {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

func hasHeader(hs []Header, name string) bool {
	for _, h := range hs {
		if strings.EqualFold(h.Name, name) {
			return true
		}
	}
	return false
}

// hasToken says whether a comma-separated header called name lists token.
func hasToken(hs []Header, name, token string) bool {
	for _, v := range headerValues(hs, name) {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

func appendHeaders(b []byte, hs []Header) []byte {
	for _, h := range hs {
		b = append(b, h.Name...)
		b = append(b, ": "...)
		b = append(b, h.Value...)
		b = append(b, "\r\n"...)
	}
	return b
}

// parseHeader reads one header line without its line end.
func parseHeader(line string) (Header, error) {
	if line[0] == ' ' || line[0] == '\t' {
		return Header{}, fmt.Errorf("folded header line %q", line)
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return Header{}, fmt.Errorf("header line %q has no colon", line)
	}
	if !isToken(name) {
		return Header{}, fmt.Errorf("header name %q is not a token", name)
	}
	value = strings.Trim(value, " \t")
	if strings.ContainsAny(value, "\r\x00") {
		return Header{}, fmt.Errorf("header %s has a control character in %q", name, value)
	}
	return Header{name, value}, nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// parseRequestLine splits a request line at its two spaces.
func parseRequestLine(line string) (method, target, proto string, err error) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || !isToken(parts[0]) || parts[1] == "" {
		return "", "", "", fmt.Errorf("request line %q is not METHOD TARGET VERSION", line)
	}
	if parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0" {
		return "", "", "", fmt.Errorf("request line %q has version %q; want HTTP/1.1 or HTTP/1.0", line, parts[2])
	}
	return parts[0], parts[1], parts[2], nil
}

// parseStatusLine splits a status line; the reason may be empty.
func parseStatusLine(line string) (proto string, status int, err error) {
	proto, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, numErr := strconv.Atoi(code)
	if (proto != "HTTP/1.1" && proto != "HTTP/1.0") || numErr != nil || len(code) != 3 || status < 100 {
		return "", 0, fmt.Errorf("status line %q is not HTTP/1.x CODE REASON", line)
	}
	return proto, status, nil
}

// reasons are the phrases of the status codes that tests use; any other code is
// written with the phrase "Status".
var reasons = map[int]string{
	100: "Continue", 101: "Switching Protocols", 103: "Early Hints",
	200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 206: "Partial Content",
	301: "Moved Permanently", 302: "Found", 304: "Not Modified", 307: "Temporary Redirect",
	400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
	408: "Request Timeout", 409: "Conflict", 413: "Content Too Large", 422: "Unprocessable Content",
	429: "Too Many Requests", 431: "Request Header Fields Too Large",
	500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
}

func appendStatusLine(b []byte, status int) []byte {
	reason, ok := reasons[status]
	if !ok {
		reason = "Status"
	}
	return fmt.Appendf(b, "HTTP/1.1 %d %s\r\n", status, reason)
}
