package peers

import (
	"bytes"
	"time"

	"loadstar/actors"
)

// fullEvery is how often all shards are told, changed or not.
const fullEvery = 200 * time.Millisecond

// teller writes what this router has to say. It belongs to the loop.
type teller struct {
	head head // of the last message
	told [shards][]byte
	next [shards][]byte // scratch
	full int64          // when everything was told last
}

// maxEntries is the room of a shard's entries in a message.
const maxEntries = MaxMessage - 2 - 1 - MaxName - 4*8

// write returns the messages that are due at now: of the shards that have changed, or
// of all. It says of how many workers there is no room to tell.
func (t *teller) write(all []actors.Elsewhere, now int64) (messages [][]byte, oversized int) {
	for i := range t.next {
		t.next[i] = t.next[i][:0]
	}
	for i := range all {
		e := &all[i]
		b := &t.next[shardOf(e.URL)]
		n := len(*b)
		if len(e.URL) > 0 && len(e.URL) <= maxURL {
			*b = appendEntry(*b, e)
		}
		if len(*b) == n || len(*b) > maxEntries {
			*b = (*b)[:n]
			oversized++
		}
	}
	full := now-t.full >= int64(fullEvery)
	if full {
		t.full = now
	} else {
		oversized = 0 // they are told of with everything else
	}
	var set uint64
	var entries []byte
	for i := range t.next {
		if !full && bytes.Equal(t.next[i], t.told[i]) {
			continue
		}
		if len(entries)+len(t.next[i]) > maxEntries {
			messages = append(messages, t.message(set, entries, now))
			set, entries = 0, entries[:0]
		}
		set |= 1 << i
		entries = append(entries, t.next[i]...)
		t.told[i], t.next[i] = t.next[i], t.told[i]
	}
	if set != 0 {
		messages = append(messages, t.message(set, entries, now))
	}
	return messages, oversized
}

// nothing is the message that nothing runs anywhere.
func (t *teller) nothing(now int64) []byte { return t.message(^uint64(0), nil, now) }

func (t *teller) message(set uint64, entries []byte, now int64) []byte {
	h := t.nextHead(now)
	return appendFigures(&h, set, entries)
}

func (t *teller) nextHead(now int64) head {
	t.head.sequence++
	t.head.sent = now
	return t.head
}
