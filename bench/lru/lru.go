// Package lru has the prefix cache of the workers that are simulated, live or not.
package lru

// Cache is an LRU set of prompt blocks. A block's key is the hash of the whole
// prompt up to the block's end, so a chain of keys is a prompt and its shared
// part with another prompt is the common start of both chains. Make one with New.
type Cache struct {
	limit int
	index map[uint64]int32 // key → place in slots
	slots []slot           // slots[0] is the ring's head: next is the newest, prev the oldest
}

type slot struct {
	key        uint64
	prev, next int32
}

// New is an empty cache of so many blocks.
func New(limit int) *Cache {
	return &Cache{limit: limit, index: make(map[uint64]int32), slots: make([]slot, 1)}
}

// Len is how many blocks are cached.
func (c *Cache) Len() int { return len(c.index) }

// Keys lists what is cached, newest first.
func (c *Cache) Keys() []uint64 {
	var keys []uint64
	for at := c.slots[0].next; at != 0; at = c.slots[at].next {
		keys = append(keys, c.slots[at].key)
	}
	return keys
}

// Known is the length of the longest start of chain that is cached.
func (c *Cache) Known(chain []uint64) int {
	n := 0
	for n < len(chain) {
		if _, ok := c.index[chain[n]]; !ok {
			break
		}
		n++
	}
	return n
}

// Match is Known, and makes that part the most recently used.
func (c *Cache) Match(chain []uint64) int {
	n := c.Known(chain)
	c.Add(chain[:n])
	return n
}

// Add makes chain the most recently used, evicting what is oldest. It goes from
// the end to the start: a block without those before it can't be hit, so the
// start must outlive the end.
func (c *Cache) Add(chain []uint64) {
	chain = chain[:min(len(chain), c.limit)]
	for i := len(chain) - 1; i >= 0; i-- {
		key := chain[i]
		at, ok := c.index[key]
		switch {
		case ok:
			c.unlink(at)
		case len(c.index) < c.limit:
			at = int32(len(c.slots))
			c.slots = append(c.slots, slot{})
		default:
			at = c.slots[0].prev
			delete(c.index, c.slots[at].key)
			c.unlink(at)
		}
		c.slots[at].key = key
		c.index[key] = at
		c.pushNewest(at)
	}
}

// Clear empties the cache.
func (c *Cache) Clear() {
	clear(c.index)
	c.slots = append(c.slots[:0], slot{})
}

func (c *Cache) unlink(at int32) {
	s := c.slots[at]
	c.slots[s.prev].next = s.next
	c.slots[s.next].prev = s.prev
}

func (c *Cache) pushNewest(at int32) {
	first := c.slots[0].next
	c.slots[at].prev, c.slots[at].next = 0, first
	c.slots[first].prev = at
	c.slots[0].next = at
}
