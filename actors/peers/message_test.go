package peers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"loadstar/actors"
)

// messageOf is a message of some figures that is about all shards.
func messageOf(h head, all ...actors.Elsewhere) []byte {
	var entries []byte
	for i := range all {
		entries = appendEntry(entries, &all[i])
	}
	return appendFigures(&h, ^uint64(0), entries)
}

func TestFiguresGoThere(t *testing.T) {
	h := head{name: "router-1.x:30000", incarnation: 1 << 63, sequence: 7, sent: 99}
	for _, tc := range []struct {
		name string
		all  []actors.Elsewhere
	}{
		{"nothing", nil},
		{"one worker", []actors.Elsewhere{{URL: "http://a:1", N: 3, Pending: 400, Decode: 1}}},
		{"ranks and paths", []actors.Elsewhere{{URL: "http://a:1/v1@0", N: 1}, {URL: "http://a:1/v1@1", Pending: 1}, {URL: "https://[::1]:2", Decode: 1, N: 1}}},
		{"the most there may be", []actors.Elsewhere{{URL: strings.Repeat("u", maxURL), N: maxCount, Pending: maxBlocks, Decode: maxCount}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseFigures(messageOf(h, tc.all...))
			if want := (figures{h, ^uint64(0), tc.all}); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestFiguresRefused(t *testing.T) {
	h := head{name: "r", incarnation: 1, sequence: 1}
	good := messageOf(h, actors.Elsewhere{URL: "http://a:1", N: 1})
	other := appendFigures(&h, 1<<((shardOf("http://a:1")+1)%shards), good[len(messageOf(h)):])
	named := func(name string) []byte { return messageOf(head{name: name, incarnation: 1, sequence: 1}) }
	for _, tc := range []struct {
		name    string
		message []byte
	}{
		{"empty", nil},
		{"another kind", append([]byte{kindPlaced}, good[1:]...)},
		{"another version", append([]byte{kindFigures, version + 1}, good[2:]...)},
		{"cut short", good[:len(good)-1]},
		{"cut in the head", good[:12]},
		{"more behind it", append(good[:len(good):len(good)], 0)},
		{"a worker twice", append(good[:len(good):len(good)], good[len(messageOf(h)):]...)},
		{"a worker of a shard that it is not about", other},
		{"no name", named("")},
		{"a name too long", named(strings.Repeat("n", MaxName+1))},
		{"a name with a line end", named("r\n")},
		{"a URL too long", messageOf(h, actors.Elsewhere{URL: strings.Repeat("u", maxURL+1)})},
		{"no URL", messageOf(h, actors.Elsewhere{N: 1})},
		{"a negative number", messageOf(h, actors.Elsewhere{URL: "http://a:1", N: -1})},
		{"sent before there was a clock", messageOf(head{name: "r", sent: -1})},
		{"sent in the far future", messageOf(head{name: "r", sent: maxSent + 1})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if m, err := parseFigures(tc.message); err == nil {
				t.Errorf("read as %+v, want an error", m)
			}
		})
	}
	if _, err := parseFigures(good); err != nil {
		t.Errorf("the message that all of these were made of: %v", err)
	}
}

// placements are prompts that have much in common.
func placements(n int) []actors.Placement {
	var all []actors.Placement
	for i := range n {
		key := make([]uint64, 40+i%7)
		for k := range key {
			key[k] = uint64(k + 1)
			if k >= 30 {
				key[k] = uint64(i)<<32 | uint64(k)
			}
		}
		all = append(all, actors.Placement{Worker: fmt.Sprintf("http://w%d:1", i%5), Key: key})
	}
	return all
}

// named tells placements apart.
func named(p actors.Placement) string {
	d := xxhash.New()
	for _, k := range p.Key {
		_, _ = d.Write(binary.LittleEndian.AppendUint64(nil, k))
	}
	return fmt.Sprint(p.Worker, len(p.Key), d.Sum64())
}

func TestPlacedGoesThere(t *testing.T) {
	long := make([]uint64, actors.MaxPlacementBlocks)
	for i := range long {
		long[i] = uint64(i) + 1<<40
	}
	var longs []actors.Placement
	for i := range 2 * maxExpanded / len(long) {
		longs = append(longs, actors.Placement{Worker: fmt.Sprint("w", i), Key: long})
	}
	many := make([]actors.Placement, 0, 4096)
	for i := range 4096 {
		key := make([]uint64, 64)
		for k := range key {
			key[k] = uint64(i)<<32 | uint64(k)
		}
		many = append(many, actors.Placement{Worker: "w", Key: key})
	}
	for _, tc := range []struct {
		name     string
		all      []actors.Placement
		messages int
		want     int // placements that get there
	}{
		{"nothing", nil, 0, 0},
		{"one", placements(1), 1, 1},
		{"a hundred", placements(100), 1, 100},
		{"one prompt at many workers", longs, 2, len(longs)},
		{"more than there is room for", many, maxPlacedMessages, maxPlacedMessages * 127},
		{"not what can't be told", []actors.Placement{{Worker: "", Key: []uint64{1}}, {Worker: strings.Repeat("u", maxURL+1), Key: []uint64{1}}, {Worker: "w", Key: make([]uint64, actors.MaxPlacementBlocks+1)}}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := map[string]int{}
			for _, p := range tc.all {
				want[named(p)]++
			}
			n, messages, sequence := 0, 0, uint64(0)
			writePlaced(tc.all, func() head { sequence++; return head{name: "r", sequence: sequence} }, func(b []byte) {
				messages++
				h, all, blocks, err := parsePlaced(b)
				if err != nil || len(b) > MaxMessage || h.sequence != sequence || blocks > maxExpanded {
					t.Fatalf("message %d of %d bytes and %d blocks: %+v, %v", messages, len(b), blocks, h, err)
				}
				for _, p := range all {
					n++
					blocks -= len(p.Key)
					if want[named(p)]--; want[named(p)] < 0 {
						t.Fatalf("%v was never placed", p)
					}
				}
				if blocks != 0 {
					t.Errorf("the number of blocks is wrong by %d", blocks)
				}
			})
			if messages != tc.messages || n != tc.want {
				t.Errorf("%d placements in %d messages, want %d in %d", n, messages, tc.want, tc.messages)
			}
		})
	}
}

func TestPlacedRefused(t *testing.T) {
	start := appendHead(nil, kindPlaced, &head{name: "r"})
	with := func(parts ...[]byte) []byte { return slices.Concat(append([][]byte{start}, parts...)...) }
	w, hash := []byte{0, 1, 'w'}, make([]byte, 8)
	most := binary.AppendUvarint(nil, actors.MaxPlacementBlocks)
	long := slices.Concat(w, []byte{0}, most, make([]byte, 8*actors.MaxPlacementBlocks))
	same := slices.Concat([]byte{0}, most, []byte{0}) // the key before, again
	for _, tc := range []struct {
		name    string
		message []byte
	}{
		{"empty", nil},
		{"another kind", messageOf(head{name: "r"})},
		{"a worker that was not named", with([]byte{1, 0, 1}, hash)},
		{"a worker without a name", with([]byte{0, 0, 0, 1}, hash)},
		{"cut in a hash", with(w, []byte{0, 1}, hash[:7])},
		{"more in common than there was", with(w, []byte{1, 1}, hash)},
		{"no blocks", with(w, []byte{0, 0})},
		{"too many blocks", with(w, []byte{0}, binary.AppendUvarint(nil, actors.MaxPlacementBlocks+1), make([]byte, 8*actors.MaxPlacementBlocks+8))},
		{"too many blocks with what is in common", with(long, []byte{0}, most, []byte{1}, hash)},
		{"too many blocks of all", with(long, bytes.Repeat(same, maxExpanded/actors.MaxPlacementBlocks))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, all, _, err := parsePlaced(tc.message); err == nil {
				t.Errorf("read as %d placements, want an error", len(all))
			}
		})
	}
	for name, good := range map[string][]byte{"one": with(w, []byte{0, 1}, hash), "all there may be": with(long, bytes.Repeat(same, maxExpanded/actors.MaxPlacementBlocks-1))} {
		if _, _, _, err := parsePlaced(good); err != nil {
			t.Errorf("%s: %v, want it read", name, err)
		}
	}
}

// FuzzParse reads anything. What is taken is within all bounds and, written again, the
// same message, if it has no needlessly long numbers in it.
func FuzzParse(f *testing.F) {
	f.Add(messageOf(head{name: "r", incarnation: 1, sequence: 2, sent: 3}, actors.Elsewhere{URL: "http://a:1", N: 1, Pending: 300, Decode: 1}))
	writePlaced(placements(5), func() head { return head{name: "r"} }, func(b []byte) { f.Add(b) })
	f.Add([]byte{kindPlaced, version, 1, 'r', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'w', 0, 0x80, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseFigures(b); err == nil {
			var entries []byte
			for i := range m.all {
				e := &m.all[i]
				if len(e.URL) == 0 || len(e.URL) > maxURL || e.N < 0 || e.N > maxCount || e.Pending < 0 || e.Pending > maxBlocks || e.Decode < 0 || e.Decode > maxCount {
					t.Fatalf("out of bounds: %+v", e)
				}
				entries = appendEntry(entries, e)
			}
			again := appendFigures(&m.head, m.shards, entries)
			if len(again) == len(b) && !bytes.Equal(again, b) {
				t.Fatalf("%x was read as %x", b, again)
			}
			if got, err := parseFigures(again); err != nil || !reflect.DeepEqual(got, m) {
				t.Fatalf("read again: %+v, %v, want %+v", got, err, m)
			}
		}
		h, all, blocks, err := parsePlaced(b)
		if err != nil {
			return
		}
		for _, p := range all {
			blocks -= len(p.Key)
			if len(p.Key) == 0 || len(p.Key) > actors.MaxPlacementBlocks || len(p.Worker) == 0 || len(p.Worker) > maxURL {
				t.Fatalf("out of bounds: %d blocks at %q", len(p.Key), p.Worker)
			}
		}
		if blocks != 0 || !IsName(h.name) {
			t.Fatalf("blocks wrong by %d, name %q", blocks, h.name)
		}
	})
}
