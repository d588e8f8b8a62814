package policy

// perPool is what a policy keeps for each pool of workers, by the pool's number.
// Numbers are small, so there are few values. One that is the number of another pool
// by now finds that one's value, which is soon its own.
type perPool[T any] struct {
	fleet T // of pool 0
	pools []T
}

// of is the value of a pool, valid until the next call.
func (p *perPool[T]) of(pool uint32) *T {
	if pool == 0 {
		return &p.fleet
	}
	if missing := int(pool) - len(p.pools); missing > 0 {
		p.pools = append(p.pools, make([]T, missing)...)
	}
	return &p.pools[pool-1]
}
