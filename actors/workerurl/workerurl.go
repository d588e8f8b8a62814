// Package workerurl gives each worker the one URL by which it is known.
package workerurl

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Canonical gives the one spelling of a worker's URL, by which the worker is
// known for as long as it has requests: scheme://host:port in lower case with
// the port written out, a path prefix kept as it is, no slash at the end.
//
// It refuses what is not part of a worker's identity or would be lost on the
// way (user info, query, fragment), every scheme but http and https, and an @ in
// the path, since a data-parallel rank is appended as @rank. Errors quote the URL
// without its user info.
func Canonical(raw string) (string, error) {
	if raw == "" {
		return "", errors.New("an empty URL: write http://HOST:PORT")
	}
	shown := strconv.Quote(Redacted(raw))
	if !strings.Contains(raw, "://") {
		return "", fmt.Errorf("%s has no scheme: write it as http://HOST:PORT", shown)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("%s is not a URL: write http://HOST:PORT", shown)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s has the scheme %q: only http and https are spoken", shown, u.Scheme)
	case u.User != nil:
		return "", fmt.Errorf("%s holds user info: leave it out and give workers' keys with --api-key", shown)
	case strings.ContainsAny(raw, "?#"):
		return "", fmt.Errorf("%s holds a query or a fragment: leave it out", shown)
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return "", fmt.Errorf("%s %w", shown, err)
	}
	port := u.Port()
	switch {
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("%s has the port %s: give one from 1 to 65535", shown, port)
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if err := checkPath(path); err != nil {
		return "", fmt.Errorf("%s %w", shown, err)
	}
	return fmt.Sprintf("%s://%s:%d%s", u.Scheme, host, n, path), nil
}

// canonicalHost gives a host in lower case, an IPv6 address in its shortest form
// and in brackets. The error continues a sentence that begins with the URL.
func canonicalHost(host string) (string, error) {
	if host == "" {
		return "", errors.New("names no host: write http://HOST:PORT")
	}
	if strings.Contains(host, ":") {
		ip, err := netip.ParseAddr(host)
		if err != nil || !IsHostName(ip.Zone()) {
			return "", errors.New("holds no valid IPv6 address: write it as http://[::1]:PORT")
		}
		zone := ip.Zone()
		if zone != "" {
			zone = "%25" + zone // the percent sign is escaped in a URL
		}
		return "[" + ip.WithZone("").String() + zone + "]", nil
	}
	if !IsHostName(host) {
		return "", errors.New("holds a host name with a character that is not a letter, a digit, a dot, a hyphen or an underscore: correct it (several URLs are separated by spaces)")
	}
	return strings.ToLower(host), nil
}

// IsHostName reports whether s has only characters that host names in use have.
// Underscores are not by the book, but container networks name hosts with them.
func IsHostName(s string) bool {
	for _, c := range []byte(s) {
		if !isAlphanumeric(c) && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// checkPath refuses a path prefix that has a second spelling or looks like a
// rank. The error continues a sentence that begins with the URL.
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		plain, err := url.PathUnescape(segment)
		switch {
		case err != nil, plain == "", plain == ".", plain == "..":
			return errors.New("holds an empty, . or .. part in its path: write the path out")
		case strings.Contains(plain, "@"):
			return errors.New("holds an @ in its path, which marks a data-parallel rank: leave it out")
		}
	}
	return nil
}

// Redacted hides what stands before an @ in the authority, and a query: either may
// hold a secret, and the result goes into messages.
func Redacted(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		scheme, rest = "", raw
	} else {
		scheme += "://"
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "…" + rest[at:]
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i+1] + "…"
	}
	return scheme + rest
}
