// Package keyring tells whether a request bears one of a set of API keys, in a
// time that says nothing of the keys. A set is replaced as a whole while requests
// are being served.
package keyring

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Bounds of what is taken.
const (
	MaxKeys   = 4096    // in a set, since each request is compared with all
	MaxFile   = 4 << 20 // bytes of a file of keys
	maxKey    = 1024    // bytes
	maxTenant = 64      // bytes
)

// ShortKey is the number of bytes below which a key may be guessed by asking: what
// stands against that is a key's length alone.
const ShortKey = 16

// digest is the SHA-256 of a key in four words. Digests are compared in place of
// keys, which makes the time depend neither on a key's length nor on its bytes.
type digest [4]uint64

func digestOf(key []byte) (d digest) {
	sum := sha256.Sum256(key)
	for i := range d {
		d[i] = binary.BigEndian.Uint64(sum[8*i:])
	}
	return d
}

// Key is one key that is known: its digest, and whose it is. The key itself is not
// kept.
type Key struct {
	Tenant string // what its holder is called in logs; "" if it was not named
	digest digest
	short  bool // it has fewer than ShortKey bytes
}

// KeyOf is an unnamed key with this text.
func KeyOf(text string) Key { return newKey("", []byte(text)) }

func newKey(tenant string, text []byte) Key {
	return Key{tenant, digestOf(text), len(text) < ShortKey}
}

// ParseKey reads a key, which a name and a colon may precede: the first colon ends
// the name, so a key that holds one needs a name. Errors say what is wrong and
// never quote the text.
func ParseKey(text []byte) (Key, error) {
	text = bytes.TrimSpace(text)
	name, key, named := bytes.Cut(text, []byte(":"))
	if !named {
		name, key = nil, text
	}
	name, key = bytes.TrimSpace(name), bytes.TrimSpace(key)
	switch {
	case named && !isName(name):
		return Key{}, fmt.Errorf("what stands before the colon is no name: give up to %d letters, digits, dots, hyphens and underscores (a key that holds a colon needs a name before it)", maxTenant)
	case len(key) == 0:
		return Key{}, errors.New("there is no key")
	case len(key) > maxKey:
		return Key{}, fmt.Errorf("the key is longer than %d bytes", maxKey)
	}
	for _, c := range key {
		if c <= ' ' || c > '~' {
			return Key{}, errors.New("the key holds a space or another character that a bearer key cannot have")
		}
	}
	return newKey(string(name), key), nil
}

func isName(s []byte) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= maxTenant
}

// ParseFile reads the text of a file of keys: one a line, empty lines and lines
// that begin with # aside. A file without a key is an error, since it is rather a
// file half written than the wish to shut everybody out. Errors name the line and
// never quote it.
func ParseFile(text []byte) ([]Key, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxFile)
	}
	var keys []Key
	first := make(map[digest]int)
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		k, err := ParseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if before := first[k.digest]; before != 0 {
			return nil, fmt.Errorf("line %d: the key is that of line %d", number, before)
		}
		first[k.digest] = number
		keys = append(keys, k)
		if len(keys) > MaxKeys {
			return nil, fmt.Errorf("line %d: it holds more than %d keys", number, MaxKeys)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it holds no key")
	}
	return keys, nil
}
