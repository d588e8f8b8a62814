package peers

import "time"

// Kind is what a message is about.
type Kind uint8

// Kinds of messages.
const (
	Figures Kind = iota // what runs at workers
	Placed              // prompts and the workers that were given them
	NumKinds
)

var kindNames = [NumKinds]string{"figures", "placed"}

// String returns the last word of the subject, which is the metric label too.
func (k Kind) String() string { return kindNames[k] }

// LinkState says how the connection to the other routers is.
type LinkState struct {
	Up     bool
	Server string // connected to, as an address
	Err    error  // why it is not up, if that is known
}

// View is what an Actor knows at one moment.
type View struct {
	Name    string // of this router
	Link    LinkState
	Peers   []PeerView
	In      [NumKinds]uint64 // messages that counted
	Out     [NumKinds]uint64
	Dropped [numDrops]uint64
}

// PeerView is another router.
type PeerView struct {
	Name        string
	Incarnation uint64
	Since       time.Duration // for how long it is known
	Age         time.Duration // of the last message that counted
	Lag         time.Duration // by which that was slower than the quickest
	Workers     int           // at which something runs
	Requests    int
	Pending     int // blocks of prompt
	Decode      int
}

// Staleness is the age of the oldest figures that count.
func (v *View) Staleness() time.Duration {
	var oldest time.Duration
	for i := range v.Peers {
		oldest = max(oldest, v.Peers[i].Age+v.Peers[i].Lag)
	}
	return oldest
}

func (p *peer) view(now int64) PeerView {
	v := PeerView{
		Name: p.name, Incarnation: p.incarnation,
		Since: time.Duration(now - p.since), Age: time.Duration(now - p.taken), Lag: time.Duration(p.lag),
	}
	for i := range p.shards {
		for _, e := range p.shards[i].all {
			v.Workers++
			v.Requests += e.N
			v.Pending += e.Pending
			v.Decode += e.Decode
		}
	}
	return v
}
