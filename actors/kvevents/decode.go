package kvevents

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/tinylib/msgp/msgp"
)

// maxChanges bounds what one message brings to the index.
const maxChanges = 256

// errUnreadable is the error for a batch that isn't one.
var errUnreadable = errors.New("it is no batch of KV-cache events")

// decoder reads batches of events of one source. What it reads goes to the index in
// pieces, in order.
type decoder struct {
	size    int // tokens of a block
	send    func(event) bool
	windows map[int]bool // groups of layers that keep a window of the prompt only

	changes []change
	skipped int
	tokens  []uint32
}

// maxGroups bounds the groups of layers that are known to keep a window.
const maxGroups = 64

// Fields of an event, in the order in which they stand where events are arrays.
const (
	fieldHashes = iota
	fieldParent
	fieldTokens
	fieldSize
	fieldLoraID
	fieldMedium
	fieldLoraName
	fieldExtra
	fieldGroup
	fieldSpec
	fieldWindow
	fieldLocality
	numFields
)

var fieldNames = [numFields]string{
	"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx",
	"kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality",
}

// removedPlaces are the fields of an array that tells of blocks that were removed.
var removedPlaces = [...]int{fieldHashes, fieldMedium, fieldGroup}

// fields are the raw values of an event; those that are missing or nil are empty.
type fields [numFields][]byte

// batch reads a batch: an array of the time, the events and the rank, or a map.
// Events are arrays of a tag and their fields, or maps; fields that are added behind
// those known are skipped. The error is errUnreadable; what came before the fault has
// gone to the index. It reports false if the source is to end.
func (d *decoder) batch(b []byte) (ok bool, err error) {
	events, err := eventsOf(b)
	if err != nil {
		return true, err
	}
	n, b, err := msgp.ReadArrayHeaderBytes(events)
	if err != nil {
		return true, errUnreadable
	}
	for range n {
		var f fields
		var tag string
		if tag, f, b, err = readEvent(b); err != nil {
			break
		}
		switch tag {
		case "BlockStored":
			err = d.stored(&f)
		case "BlockRemoved":
			err = d.removed(&f)
		case "AllBlocksCleared":
			if !d.flush() || !d.send(event{op: opClear}) {
				return false, nil
			}
		}
		if err != nil {
			break
		}
	}
	return d.flush(), err
}

// eventsOf finds the events in a batch.
func eventsOf(b []byte) ([]byte, error) {
	if _, err := msgp.Skip(b); err != nil {
		return nil, errUnreadable
	}
	if msgp.NextType(b) != msgp.MapType {
		n, b, err := msgp.ReadArrayHeaderBytes(b)
		if err != nil || n < 2 {
			return nil, errUnreadable
		}
		b, _ = msgp.Skip(b) // the time; all of it was skipped before
		return b, nil
	}
	n, b, _ := msgp.ReadMapHeaderBytes(b)
	for range n {
		key, rest, _ := msgp.ReadStringZC(b)
		if string(key) == "events" {
			return rest, nil
		}
		b, _ = msgp.Skip(b)
		b, _ = msgp.Skip(b)
	}
	return nil, errUnreadable
}

// readEvent takes an event from the front of b.
func readEvent(b []byte) (tag string, f fields, rest []byte, err error) {
	rest, err = msgp.Skip(b)
	if err != nil {
		return "", f, nil, errUnreadable
	}
	if msgp.NextType(b) == msgp.MapType {
		tag = readMap(b, &f)
		return tag, f, rest, nil
	}
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil || n == 0 {
		return "", f, nil, errUnreadable
	}
	name, b, err := msgp.ReadStringZC(b)
	if err != nil {
		return "", f, nil, errUnreadable
	}
	tag = string(name)
	for i := range int(n) - 1 {
		value := b
		b, _ = msgp.Skip(b)
		if at := placeIn(tag, i); at >= 0 {
			f.set(at, value[:len(value)-len(b)])
		}
	}
	return tag, f, rest, nil
}

// placeIn is the field that stands at a place of an event that is an array.
func placeIn(tag string, i int) int {
	switch {
	case tag == "BlockRemoved" && i < len(removedPlaces):
		return removedPlaces[i]
	case tag != "BlockRemoved" && i < numFields:
		return i
	}
	return -1
}

// readMap reads an event that is a map, and was skipped before.
func readMap(b []byte, f *fields) (tag string) {
	n, b, _ := msgp.ReadMapHeaderBytes(b)
	for range n {
		key, _, _ := msgp.ReadStringZC(b) // empty unless it is a string
		b, _ = msgp.Skip(b)
		value := b
		b, _ = msgp.Skip(b)
		value = value[:len(value)-len(b)]
		if string(key) == "type" {
			name, _, _ := msgp.ReadStringZC(value)
			tag = string(name)
		} else if at := slices.Index(fieldNames[:], string(key)); at >= 0 {
			f.set(at, value)
		}
	}
	return tag
}

func (f *fields) set(at int, value []byte) {
	if !msgp.IsNil(value) {
		f[at] = value
	}
}

// stored takes blocks that were stored, one behind the other.
func (d *decoder) stored(f *fields) error {
	n, hashes, err := msgp.ReadArrayHeaderBytes(f[fieldHashes])
	size, _, sizeErr := msgp.ReadIntBytes(f[fieldSize])
	if err != nil || sizeErr != nil {
		return errUnreadable
	}
	seed, named := adapterOf(f)
	if d.isWindow(f) || size != d.size || !named {
		d.skipped += int(n)
		return nil
	}
	if d.tokens, err = readTokens(d.tokens[:0], f[fieldTokens]); err != nil {
		return err
	}
	if uint64(len(d.tokens)) != uint64(n)*uint64(size) {
		return errUnreadable
	}
	c := change{seed: seed, tier: tierOf(f), first: len(f[fieldParent]) == 0}
	if !c.first {
		if c.parent, _, err = readHash(f[fieldParent]); err != nil {
			return err
		}
	}
	extra := f[fieldExtra]
	if _, rest, err := msgp.ReadArrayHeaderBytes(extra); err == nil {
		extra = rest
	}
	for i := range int(n) {
		if c.hash, hashes, err = readHash(hashes); err != nil {
			return err
		}
		var plain bool
		if plain, extra = isPlain(extra, f[fieldLoraName]); !plain {
			d.skipped += int(n) - i // those behind it follow a block that isn't known
			return nil
		}
		c.content = content(d.tokens[i*size : (i+1)*size])
		if !d.add(c) {
			return nil
		}
		c.first, c.parent = false, c.hash
	}
	return nil
}

// removed takes blocks that were removed.
func (d *decoder) removed(f *fields) error {
	n, b, err := msgp.ReadArrayHeaderBytes(f[fieldHashes])
	if err != nil {
		return errUnreadable
	}
	if d.windows[groupOf(f)] {
		return nil
	}
	c := change{removed: true, tier: tierOf(f)}
	for range n {
		if c.hash, b, err = readHash(b); err != nil {
			return err
		}
		if !d.add(c) {
			return nil
		}
	}
	return nil
}

// add notes a change. It reports false if the source is to end.
func (d *decoder) add(c change) bool {
	d.changes = append(d.changes, c)
	return len(d.changes) < maxChanges || d.flush()
}

// flush sends what was noted.
func (d *decoder) flush() bool {
	if len(d.changes) == 0 && d.skipped == 0 {
		return true
	}
	m := event{op: opChanges, changes: d.changes, skipped: d.skipped}
	d.changes, d.skipped = nil, 0
	return d.send(m)
}

// isWindow reports whether blocks are of layers that don't keep the whole prompt: that
// one of them is there says nothing of those before it.
func (d *decoder) isWindow(f *fields) bool {
	kind, _, _ := msgp.ReadStringZC(f[fieldSpec])
	switch string(kind) {
	case "", "full_attention", "mla_attention", "sink_full_attention":
		return false
	}
	if len(d.windows) < maxGroups {
		if d.windows == nil {
			d.windows = make(map[int]bool)
		}
		d.windows[groupOf(f)] = true
	}
	return true
}

// groupOf is the group of layers of an event, -1 if it names none.
func groupOf(f *fields) int {
	n, _, err := msgp.ReadIntBytes(f[fieldGroup])
	if err != nil {
		return -1
	}
	return n
}

// tierOf is where blocks lie. What is neither the GPU's nor the worker's memory, nor
// known to be a disk, is somewhere outside.
func tierOf(f *fields) tier {
	medium, _, _ := msgp.ReadStringZC(f[fieldMedium])
	locality, _, _ := msgp.ReadStringZC(f[fieldLocality])
	switch {
	case string(locality) == "REMOTE":
		return external
	case len(medium) == 0 || string(medium) == "GPU":
		return device
	case string(medium) == "CPU":
		return host
	case string(medium) == "STORAGE" || string(medium) == "DISK":
		return disk
	}
	return external
}

// adapterOf is what stands for the adapter of blocks. It reports false for one that
// has a number and no name: requests name adapters.
func adapterOf(f *fields) (seed uint64, ok bool) {
	name, _, _ := msgp.ReadStringZC(f[fieldLoraName])
	return nameSeed(name), len(name) > 0 || len(f[fieldLoraID]) == 0
}

// isPlain takes the extra keys of one block from the front of b, which is empty where
// no more are told, and reports whether they have nothing but the adapter's name.
func isPlain(b, adapter []byte) (plain bool, rest []byte) {
	if len(b) == 0 {
		return true, nil
	}
	if msgp.IsNil(b) {
		return true, b[1:]
	}
	rest, err := msgp.Skip(b)
	if err != nil {
		return false, nil
	}
	n, keys, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return false, rest
	}
	name, _, _ := msgp.ReadStringZC(keys)
	want, _, _ := msgp.ReadStringZC(adapter)
	return n == 0 || n == 1 && len(want) > 0 && string(name) == string(want), rest
}

// readHash takes a hash, which is a number or bytes, from the front of b.
func readHash(b []byte) (hash uint64, rest []byte, err error) {
	switch msgp.NextType(b) {
	case msgp.UintType:
		hash, rest, err = msgp.ReadUint64Bytes(b)
	case msgp.IntType:
		var n int64
		n, rest, err = msgp.ReadInt64Bytes(b)
		hash = uint64(n)
	case msgp.BinType:
		var v []byte
		v, rest, err = msgp.ReadBytesZC(b)
		hash = xxhash.Sum64(v)
	case msgp.StrType:
		var v []byte
		v, rest, err = msgp.ReadStringZC(b)
		hash = xxhash.Sum64(v)
	default:
		return 0, nil, errUnreadable
	}
	if err != nil {
		return 0, nil, errUnreadable
	}
	return hash, rest, nil
}

// readTokens reads token ids.
func readTokens(dst []uint32, b []byte) ([]uint32, error) {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil || uint64(n) > uint64(len(b)) {
		return dst, errUnreadable
	}
	for range n {
		var t uint32
		if len(b) > 2 && b[0] == 0xcd { // the usual form
			t, b = uint32(binary.BigEndian.Uint16(b[1:])), b[3:]
		} else if t, b, err = msgp.ReadUint32Bytes(b); err != nil {
			return dst, errUnreadable
		}
		dst = append(dst, t)
	}
	return dst, nil
}
