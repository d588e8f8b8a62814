package policy

import (
	"cmp"
	"slices"
	"strconv"
)

// virtualNodes is the number of points that each member has on the ring, as in
// vllm-router.
const virtualNodes = 160

// point is one virtual node.
type point struct {
	at uint64
	id uint32
}

// ring holds the virtual nodes of all members in order. It is kept over the
// members and not over the candidates of a request: a walk that skips the
// others finds the same owner as a ring over the candidates would, and health
// or models then cost no rebuilding.
type ring struct {
	points []point
	spare  []point  // the ring before, for reuse
	urls   []string // by ID; empty where there is no such member
	want   []string // the urls to be, while they are being set
	hasher referenceHasher
	text   []byte
}

// set makes the ring that of the members. Only what changed is hashed and
// sorted; the rest is one merging pass.
func (r *ring) set(members []Member) {
	top := 0
	for _, m := range members {
		top = max(top, int(m.ID)+1)
	}
	r.want = slices.Grow(r.want[:0], top)[:top]
	clear(r.want)
	for _, m := range members {
		r.want[m.ID] = m.URL
	}
	var fresh []point
	for id, url := range r.want {
		if url != "" && url != r.url(uint32(id)) {
			fresh = r.hash(fresh, uint32(id), url)
		}
	}
	slices.SortFunc(fresh, r.order)
	r.merge(fresh)
	r.urls, r.want = r.want, r.urls
}

// url is the URL under which a member is on the ring, or nothing.
func (r *ring) url(id uint32) string {
	if int(id) >= len(r.urls) {
		return ""
	}
	return r.urls[id]
}

// hash appends a member's virtual nodes to points.
func (r *ring) hash(points []point, id uint32, url string) []point {
	for i := range virtualNodes {
		r.text = append(r.text[:0], url...)
		r.text = append(r.text, ':')
		r.text = strconv.AppendInt(r.text, int64(i), 10)
		points = append(points, point{at: r.hasher.sum(r.text), id: id})
	}
	return points
}

// order sorts by place. Different members do share places, because the hash is
// narrow, and there the URL decides, since IDs differ from router to router.
func (r *ring) order(a, b point) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	return cmp.Compare(r.want[a.id], r.want[b.id])
}

// merge replaces the points by those that stay and the fresh ones, which are
// sorted.
func (r *ring) merge(fresh []point) {
	merged := slices.Grow(r.spare[:0], len(r.points)+len(fresh))
	for _, p := range r.points {
		if int(p.id) >= len(r.want) || r.want[p.id] != r.urls[p.id] {
			continue
		}
		for len(fresh) > 0 && r.order(fresh[0], p) < 0 {
			merged = append(merged, fresh[0])
			fresh = fresh[1:]
		}
		merged = append(merged, p)
	}
	merged = append(merged, fresh...)
	r.points, r.spare = merged, r.points
}

// from is the index of the first point at or after a place, round the ring.
func (r *ring) from(at uint64) int {
	i, _ := slices.BinarySearchFunc(r.points, at, func(p point, at uint64) int { return cmp.Compare(p.at, at) })
	if i == len(r.points) {
		return 0
	}
	return i
}
