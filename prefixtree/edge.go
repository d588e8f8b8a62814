package prefixtree

// lines is the number of lines behind the edge of n.
func (n *node) lines() int {
	return (int(n.skip) + int(n.length) - headHashes + lineHashes - 1) / lineHashes
}

// common returns how many blocks of key the edge of n starts with. The first
// must be known to match. Hashes are chained, so equality at a line's end
// settles the line.
func (t *Tree) common(n *node, key []uint64) int {
	end := min(int(n.length), len(key))
	i := 1
	for ; i < min(end, headHashes); i++ {
		if n.head[i] != uint32(key[i]) {
			return i
		}
	}
	at, p := n.first, int(n.skip)
	for i < end {
		l := t.line(at)
		k := min(lineHashes-p, end-i)
		if l.hash[p+k-1] != uint32(key[i+k-1]) {
			for l.hash[p] == uint32(key[i]) {
				i, p = i+1, p+1
			}
			return i
		}
		at, p, i = l.next, 0, i+k
	}
	return end
}

// hash returns the hash of block i of the edge of n.
func (t *Tree) hash(n *node, i int) uint32 {
	if i < headHashes {
		return n.head[i]
	}
	p := int(n.skip) + i - headHashes
	at := n.first
	for ; p >= lineHashes; p -= lineHashes {
		at = t.line(at).next
	}
	return t.line(at).hash[p]
}

// grow appends blocks of key to the edge of n until the edge is full, the key
// is used up or there is no cell left, and returns how many it took.
func (t *Tree) grow(n *node, key []uint64) int {
	end := min(len(key), maxEdge-int(n.length))
	i := 0
	for ; i < end && n.length < headHashes; i++ {
		n.head[n.length] = uint32(key[i])
		n.length++
	}
	for i < end {
		p := (int(n.skip) + int(n.length) - headHashes) % lineHashes
		if p == 0 {
			c := t.take(lineCells)
			if c == 0 {
				break
			}
			if n.first == 0 {
				n.first = c
			} else {
				t.line(n.tail).next = c
			}
			t.line(c).next = 0
			n.tail = c
		}
		k := min(lineHashes-p, end-i)
		to := t.line(n.tail).hash[p : p+k]
		for j, h := range key[i : i+k] {
			to[j] = uint32(h)
		}
		n.length += uint16(k)
		i += k
	}
	if i > 0 {
		n.last = uint32(key[i-1])
	}
	return i
}

// cut moves the first m blocks of the edge of low to up, an empty node. It
// takes at most one cell, which must be there.
func (t *Tree) cut(up, low *node, m int) {
	old := *low
	total, rest := int(old.length), int(old.length)-m

	up.length = uint16(m)
	copy(up.head[:], old.head[:min(m, headHashes)])
	up.last = t.hash(&old, m-1)

	low.length = uint16(rest)
	for i := range min(rest, headHashes) {
		low.head[i] = t.hash(&old, m+i)
	}
	if total <= headHashes {
		return
	}

	// The lines before number keep are up's. Behind is the line after them.
	keep, behind := 0, old.first
	if m > headHashes {
		up.skip, up.first = old.skip, old.first
		keep = up.lines()
		up.tail = up.first
		for range keep - 1 {
			up.tail = t.line(up.tail).next
		}
		behind = t.line(up.tail).next
		t.line(up.tail).next = 0
	}

	low.first, low.tail, low.skip = 0, 0, 0
	if rest <= headHashes {
		if behind != 0 {
			t.giveChain(lineCells, behind, old.tail, old.lines()-keep)
		}
		return
	}
	start := int(old.skip) + m // place of low's first hash after its head
	low.skip = uint8(start % lineHashes)
	switch start / lineHashes {
	case keep - 1: // up's last line holds hashes of low too
		c := t.take(lineCells)
		*t.line(c) = line{hash: t.line(up.tail).hash, next: behind}
		low.first, low.tail = c, old.tail
		if behind == 0 {
			low.tail = c
		}
	case keep:
		low.first, low.tail = behind, old.tail
	default: // low's head took all of the first line
		low.first, low.tail = t.line(behind).next, old.tail
		t.give(lineCells, behind)
	}
}
