package proxy

import "hash/maphash"

// vouch says who names a tenant.
type vouch byte

const (
	byKey    vouch = 1 + iota // the name of a key that was checked
	byHeader                  // whoever sent the request
)

// tenant is what tells a tenant from others. The name of a key can't be taken by a
// header, nor a name be computed that falls together with another: the seed is of
// this process.
func (p *Proxy) tenant(v vouch, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	_ = h.WriteByte(byte(v)) // never fails
	_, _ = h.WriteString(name)
	return h.Sum64()
}
