package keyring

import "fmt"

// Set is an immutable set of keys.
type Set struct {
	digests []digest
	tenants []string // in the order of digests
	short   int
}

// NewSet makes a set of keys. One that is there twice counts once, with its first
// tenant. The error says that there are too many.
func NewSet(keys ...Key) (*Set, error) {
	s := &Set{}
	known := make(map[digest]bool)
	for _, k := range keys {
		if known[k.digest] {
			continue
		}
		known[k.digest] = true
		s.digests = append(s.digests, k.digest)
		s.tenants = append(s.tenants, k.Tenant)
		if k.short {
			s.short++
		}
	}
	if len(s.digests) > MaxKeys {
		return nil, fmt.Errorf("%d keys are more than the %d that are taken", len(s.digests), MaxKeys)
	}
	return s, nil
}

// Len is the number of keys.
func (s *Set) Len() int { return len(s.digests) }

// Short is the number of keys that have fewer than ShortKey bytes.
func (s *Set) Short() int { return s.short }

// Find reports whether key is in the set, and whose it is. All of the set is looked
// at whatever is found, without a branch on it.
func (s *Set) Find(key []byte) (tenant string, ok bool) {
	d := digestOf(key)
	at := uint64(0) // the position of the key, from 1
	for i := range s.digests {
		k := &s.digests[i]
		differ := (k[0] ^ d[0]) | (k[1] ^ d[1]) | (k[2] ^ d[2]) | (k[3] ^ d[3])
		same := ((differ | -differ) >> 63) - 1 // all ones if nothing differs, else 0
		at |= same & uint64(i+1)
	}
	if at == 0 {
		return "", false
	}
	return s.tenants[at-1], true
}
