package actors

// What answers at one URL need not be one engine: ranks behind the engine's own
// balancer, a service of a cluster, another router. And an engine may be behind
// something that keeps the first bytes of a stream back. Either works on more prompts
// at a time than an engine does, and would stand idle with what one is sent.
//
// It shows in that more is worked off in a time than by a prompt that had the worker
// to itself. One engine, however much it is sent, is no faster than with one long
// prompt, so it is never taken for more.
const (
	wideFrom  = 1.4 // times as fast as with one prompt; less is no sign
	wideSpare = 1.5 // times what a worker has shown is what it is sent, for it may be wider
	widest    = 64

	// Weights of a prompt among those before it. Some are delayed by others that came
	// at the same time, and none is worked off too fast.
	loneFaster = 0.3
	loneSlower = 0.05
)

// lone is the time, in nanoseconds, that a worker takes for a block of a prompt that
// nothing is before; 0 if that isn't known.
type lone float64

// firstByte takes in that such a share, sent at since, was worked off at now.
func (l *lone) firstByte(blocks int, since, now int64) {
	if blocks < speedBlocks || now <= since {
		return
	}
	each := lone(now-since) / lone(blocks)
	switch {
	case *l == 0:
		*l = each
	case each < *l:
		*l += (each - *l) * loneFaster
	default:
		*l += (each - *l) * loneSlower
	}
}

// width is how many times as much as one engine a worker is sent. It is 1 until both
// speeds are known.
func (w *worker) width() float64 {
	if wide := w.speed.rate() * float64(w.lone); wide >= wideFrom {
		return min(wide*wideSpare, widest)
	}
	return 1
}
