package policy

// balance judges how far apart loads may be before affinity has to give way.
type balance struct {
	abs int
	rel float64
}

// lost reports whether the high load exceeds the low one by more than both
// thresholds.
func (b balance) lost(high, low int) bool {
	return high-low > b.abs && float64(high) > float64(low)*b.rel
}

// bound is the limit of load that an owner by hash may carry: a quarter above
// the mean that this request brings about, and never less than abs requests.
type bound struct {
	abs, total, workers, peak int
}

func newBound(abs int, c []Candidate) bound {
	b := bound{abs: abs, workers: len(c)}
	for i := range c {
		b.total += c[i].Load
		b.peak = max(b.peak, c[i].Load)
	}
	return b
}

// full reports whether a worker with this load has to be passed over, which is
// load+1 > 1.25*(total+1)/workers in whole numbers.
func (b bound) full(load int) bool {
	return load >= b.abs && 4*b.workers*(load+1) > 5*(b.total+1)
}

// binds reports whether passing over is possible at all: some worker is full and
// some other is not.
func (b bound) binds(c []Candidate) bool {
	if !b.full(b.peak) {
		return false
	}
	for i := range c {
		if !b.full(c[i].Load) {
			return true
		}
	}
	return false
}
