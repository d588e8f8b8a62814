package zmq

import (
	"log/slog"
	"time"
)

// note is a kind of fact worth logging.
type note uint8

// Notes. Those up to noteTableFull are of pings that were not taken.
const (
	noteNothing note = iota
	noteBadPing
	noteOtherMode
	noteTableFull
	noteContested
	noteChanged
	noteExpired
	noteFleet
	noteProtocol
	noteCrowded
	noteAccept
	notePanic
	numNotes
)

var noteTexts = [numNotes]string{
	noteBadPing:   "a ping on the discovery port was dropped",
	noteOtherMode: "a worker was refused: its transfer mode is not that of the workers before it, which holds until the router is restarted",
	noteTableFull: "a worker was refused: as many as are allowed are registered",
	noteContested: "two processes say different things of one worker: what was said first holds",
	noteChanged:   "a worker says something else of itself: it was restarted",
	noteExpired:   "a worker's pings stayed away: it is removed",
	noteFleet:     "a registered worker could not be added or changed: this is tried again",
	noteProtocol:  "a connection to the discovery port was closed",
	noteCrowded:   "a connection to the discovery port was refused: as many as are allowed are open",
	noteAccept:    "no connection to the discovery port can be accepted: this is tried again",
	notePanic:     "a bug: reading from a connection to the discovery port panicked",
}

// fact is what one line of the log tells. All but its note may be empty.
type fact struct {
	note note
	peer string
	who  Registration
	err  error
	lost int // facts of this kind before it that found no room
}

const (
	factsSize   = 64               // facts that may wait to be written
	factsPeriod = 10 * time.Second // in which
	factsBurst  = 10               // so many facts of a kind are written
)

// write writes facts until there are no more. It has a goroutine of its own,
// since a log may block.
func write(log *slog.Logger, facts <-chan fact) {
	var kinds [numNotes]struct {
		since            time.Time
		written, skipped int
	}
	for f := range facts {
		k := &kinds[f.note]
		k.skipped += f.lost
		if now := time.Now(); now.Sub(k.since) >= factsPeriod {
			k.since, k.written = now, 0
		}
		if k.written++; k.written > factsBurst {
			k.skipped++
			continue
		}
		var args []any
		if f.peer != "" {
			args = append(args, "peer", f.peer)
		}
		if f.who != none {
			args = append(args, "role", f.who.Role.String(), "address", f.who.HTTPAddress, "zmq_address", f.who.ZMQAddress)
		}
		if f.who.Mode != NoMode {
			args = append(args, "transfer_mode", f.who.Mode.String())
		}
		if f.err != nil {
			args = append(args, "error", f.err)
		}
		if k.skipped > 0 {
			args = append(args, "skipped", k.skipped)
			k.skipped = 0
		}
		log.Warn(noteTexts[f.note], args...)
	}
}
