package peers

import (
	"cmp"
	"encoding/binary"
	"slices"

	"loadstar/actors"
)

// Bounds of prompts that are told of.
const (
	maxPlacedMessages = 4       // at a time
	maxExpanded       = 1 << 15 // blocks of a message once it is read: what keys have in common is written once
)

// writePlaced calls send with messages that tell of all, or of as much as few enough
// messages have room for, and next for the head of each. It sorts all. The keys are
// written as what each has in common with the one before, and the rest.
func writePlaced(all []actors.Placement, next func() head, send func([]byte)) {
	all = slices.DeleteFunc(all, func(p actors.Placement) bool {
		return len(p.Worker) == 0 || len(p.Worker) > maxURL || len(p.Key) > actors.MaxPlacementBlocks
	})
	slices.SortFunc(all, func(a, b actors.Placement) int {
		return cmp.Or(slices.Compare(a.Key, b.Key), cmp.Compare(a.Worker, b.Worker))
	})
	for range maxPlacedMessages {
		if len(all) == 0 {
			return
		}
		h := next()
		b, n := appendPlaced(appendHead(nil, kindPlaced, &h), all)
		send(b)
		all = all[n:]
	}
}

// appendPlaced writes as many placements as there is room for, and returns how many.
func appendPlaced(b []byte, all []actors.Placement) ([]byte, int) {
	workers := make(map[string]int)
	var before []uint64
	expanded := 0
	for n, p := range all {
		common := commonPrefix(before, p.Key)
		expanded += len(p.Key)
		if len(b)+len(p.Worker)+4*binary.MaxVarintLen32+8*(len(p.Key)-common) > MaxMessage || expanded > maxExpanded {
			return b, n
		}
		w, known := workers[p.Worker]
		if !known {
			w = len(workers)
			workers[p.Worker] = w
		}
		b = binary.AppendUvarint(b, uint64(w))
		if !known {
			b = binary.AppendUvarint(b, uint64(len(p.Worker)))
			b = append(b, p.Worker...)
		}
		b = binary.AppendUvarint(b, uint64(common))
		b = binary.AppendUvarint(b, uint64(len(p.Key)-common))
		for _, hash := range p.Key[common:] {
			b = binary.LittleEndian.AppendUint64(b, hash)
		}
		before = p.Key
	}
	return b, len(all)
}

func commonPrefix(a, b []uint64) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// parsePlaced reads a message of kindPlaced, of which it keeps nothing. It returns
// the blocks of all keys together too.
func parsePlaced(b []byte) (h head, all []actors.Placement, blocks int, err error) {
	r := reader{rest: b}
	h = r.head(kindPlaced)
	var workers []string
	var before []uint64
	for len(r.rest) > 0 && !r.broken {
		w := r.number(len(workers))
		if w == len(workers) {
			workers = append(workers, r.text(maxURL))
		}
		common := r.number(len(before))
		fresh := r.take(8 * r.number(actors.MaxPlacementBlocks-common))
		blocks += common + len(fresh)/8
		if r.broken || blocks > maxExpanded {
			return head{}, nil, 0, errMessage
		}
		key := make([]uint64, common, common+len(fresh)/8)
		copy(key, before)
		for ; len(fresh) > 0; fresh = fresh[8:] {
			key = append(key, binary.LittleEndian.Uint64(fresh))
		}
		if len(key) == 0 {
			return head{}, nil, 0, errMessage
		}
		all = append(all, actors.Placement{Worker: workers[w], Key: key})
		before = key
	}
	if r.broken {
		return head{}, nil, 0, errMessage
	}
	return h, all, blocks, nil
}
