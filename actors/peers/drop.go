package peers

// Drop is why a message counts for nothing.
type Drop uint8

// Reasons. Each is the label of a metric.
const (
	notDropped Drop = iota
	Unreadable
	Stale     // behind what was heard already: repeated, overtaken, or of an earlier incarnation
	Late      // under way for too long
	Crowded   // of a router, or about workers, above those that there may be
	Namesake  // of another router that has this router's name
	Slow      // this router doesn't keep up
	Unsent    // of this router: the link didn't take it
	Oversized // a worker of which this router has no room to tell; no message
	Surplus   // a prompt that was not passed on to the prefix tree; no message
	numDrops
)

var dropNames = [numDrops]string{"", "unreadable", "stale", "late", "crowded", "namesake", "slow", "unsent", "oversized", "surplus"}

// String returns the metric label.
func (d Drop) String() string { return dropNames[d] }

// Drops lists every reason, in order.
func Drops() []Drop {
	var all []Drop
	for d := notDropped + 1; d < numDrops; d++ {
		all = append(all, d)
	}
	return all
}
