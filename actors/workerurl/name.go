package workerurl

import "strings"

// Name is Canonical for a URL that may end in @ and a data-parallel rank, which stays.
func Name(raw string) (string, error) {
	base, rank := raw, ""
	if i := strings.LastIndexByte(raw, '@'); i >= 0 && i+1 < len(raw) && strings.Trim(raw[i+1:], "0123456789") == "" {
		base, rank = raw[:i], raw[i:]
	}
	base, err := Canonical(base)
	return base + rank, err
}
