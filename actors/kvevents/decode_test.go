package kvevents

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"loadstar/actors/kvevents/kvtest"

	"github.com/cespare/xxhash/v2"
	"github.com/tinylib/msgp/msgp"
)

// decoded is what a decoder has sent: changes as text, "clear" among them.
type decoded struct {
	changes []string
	skipped int
	largest int
}

func show(c *change) string {
	if c.removed {
		return fmt.Sprintf("- %d tier %d", c.hash, c.tier)
	}
	parent := fmt.Sprint(c.parent)
	if c.first {
		parent = "nothing"
	}
	return fmt.Sprintf("+ %d behind %s tier %d content %x seed %x", c.hash, parent, c.tier, c.content, c.seed)
}

// decode reads batches with one decoder.
func decode(size int, batches ...[]byte) (decoded, error) {
	var all decoded
	d := decoder{size: size, send: func(e event) bool {
		if e.op == opClear {
			all.changes = append(all.changes, "clear")
		}
		all.largest = max(all.largest, len(e.changes))
		all.skipped += e.skipped
		for i := range e.changes {
			all.changes = append(all.changes, show(&e.changes[i]))
		}
		return true
	}}
	for _, b := range batches {
		if _, err := d.batch(b); err != nil {
			return all, err
		}
	}
	return all, nil
}

// plus is a block that was stored, of the tokens from first on.
func plus(hash uint64, parent string, t tier, first int, adapter string) string {
	return fmt.Sprintf("+ %d behind %s tier %d content %x seed %x", hash, parent, t, content(tokens(first, testSize)), nameSeed([]byte(adapter)))
}

// A batch that vLLM 0.32 has published, of one block of 32 tokens.
const published = "93" + "cb41dac33f9760033f" + "91" + "8a" +
	"a474797065ab426c6f636b53746f726564" +
	"ac626c6f636b5f68617368657391cf6843ed0c8dad41cf" +
	"b1706172656e745f626c6f636b5f68617368c0" +
	"a9746f6b656e5f696473940a7fccc8cd0100" +
	"aa626c6f636b5f73697a6504" +
	"a76c6f72615f6964c0" + "a66d656469756da3475055" + "a96c6f72615f6e616d65c0" +
	"aa65787472615f6b65797391c0" + "a967726f75705f69647800" + "00"

func TestDecode(t *testing.T) {
	sum := xxhash.Sum64String
	base := kvtest.Stored(nil, testSize, tokens(1, 8), 11, 12)
	with := func(fields []kvtest.Field, more ...kvtest.Field) []kvtest.Field {
		out := slices.Clone(fields)
		for _, m := range more {
			if i := slices.IndexFunc(out, func(f kvtest.Field) bool { return f.Name == m.Name }); i >= 0 {
				out[i] = m
			} else {
				out = append(out, m)
			}
		}
		return out
	}
	field := func(name string, value any) kvtest.Field { return kvtest.Field{Name: name, Value: value} }
	two := []string{plus(11, "nothing", device, 1, ""), plus(12, "11", device, 5, "")}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	storedMap := func(f ...kvtest.Field) []byte { return kvtest.Batch(kvtest.Event("BlockStored", with(base, f...)...)) }
	for _, tc := range []struct {
		name    string
		batch   []byte
		want    []string
		skipped int
	}{
		{"maps in an array", kvtest.Batch(kvtest.Event("BlockStored", base...)), two, 0},
		{"arrays in an array", kvtest.Batch(kvtest.ArrayEvent("BlockStored", base...)), two, 0},
		{"early arrays, without a medium", kvtest.Batch(kvtest.ArrayEvent("BlockStored", base[:5]...)), two, 0},
		{"no rank", func() []byte {
			b := kvtest.Batch(kvtest.ArrayEvent("BlockStored", base...))
			b[0] = 0x92
			return b[:len(b)-1]
		}(), two, 0},
		{"maps in a map", func() []byte {
			b := msgp.AppendFloat64(msgp.AppendString(msgp.AppendMapHeader(nil, 2), "ts"), 1)
			b = msgp.AppendArrayHeader(msgp.AppendString(b, "events"), 1)
			return append(b, kvtest.Event("BlockStored", base...)...)
		}(), two, 0},
		{"as vLLM writes it", unhex(published), []string{fmt.Sprintf("+ %d behind nothing tier 0 content %x seed 0", uint64(0x6843ed0c8dad41cf), content([]uint32{10, 127, 200, 256}))}, 0},
		{"fields in another order", kvtest.Batch(kvtest.Event("BlockStored", reversed(base)...)), two, 0},
		{"fields that aren't known", storedMap(field("session_id", "s"), field("later", []any{1})), two, 0},
		{"more array fields than are known", kvtest.Batch(kvtest.ArrayEvent("BlockStored", append(with(base), field("", nil), field("", 0), field("", "full_attention"),
			field("", nil), field("", nil), field("", nil), field("", "s"), field("", 1))...)), two, 0},
		{
			"hashes of bytes", storedMap(field("block_hashes", []any{[]byte("a"), []byte("b")}), field("parent_block_hash", []byte("c"))),
			[]string{plus(sum("a"), fmt.Sprint(sum("c")), device, 1, ""), plus(sum("b"), fmt.Sprint(sum("a")), device, 5, "")},
			0,
		},
		{"negative hash", storedMap(field("block_hashes", []any{-1, 12})), []string{plus(1<<64-1, "nothing", device, 1, ""), plus(12, "18446744073709551615", device, 5, "")}, 0},
		{"worker's memory", storedMap(field("medium", "CPU")), []string{plus(11, "nothing", host, 1, ""), plus(12, "11", host, 5, "")}, 0},
		{"disk", storedMap(field("medium", "STORAGE")), []string{plus(11, "nothing", disk, 1, ""), plus(12, "11", disk, 5, "")}, 0},
		{"outside", storedMap(field("medium", "STORAGE"), field("locality", "REMOTE")), []string{plus(11, "nothing", external, 1, ""), plus(12, "11", external, 5, "")}, 0},
		{"a medium that isn't known", storedMap(field("medium", "MOON")), []string{plus(11, "nothing", external, 1, ""), plus(12, "11", external, 5, "")}, 0},
		{
			"an adapter", storedMap(field("lora_name", "tuned"), field("lora_id", 1), field("extra_keys", []any{[]any{"tuned"}, []any{"tuned"}})),
			[]string{plus(11, "nothing", device, 1, "tuned"), plus(12, "11", device, 5, "tuned")},
			0,
		},
		{"an adapter without a name", storedMap(field("lora_id", 1)), nil, 2},
		{"a salt", storedMap(field("extra_keys", []any{[]any{"salt"}, nil})), nil, 2},
		{"an image in the second block", storedMap(field("extra_keys", []any{nil, []any{[]any{"image", 3}}})), two[:1], 1},
		{"fewer extra keys than blocks", storedMap(field("extra_keys", []any{nil})), two, 0},
		{"another size", storedMap(field("block_size", 8)), nil, 2},
		{"full attention", storedMap(field("group_idx", 0), field("kv_cache_spec_kind", "full_attention"), field("kv_cache_spec_sliding_window", 128)), two, 0},
		{"a window", kvtest.Batch(
			kvtest.Event("BlockStored", with(base, field("group_idx", 1), field("kv_cache_spec_kind", "sliding_window"))...),
			kvtest.Event("BlockRemoved", append(kvtest.Removed(11), field("group_idx", 1))...),
			kvtest.Event("BlockRemoved", append(kvtest.Removed(11), field("group_idx", 0))...)), []string{"- 11 tier 0"}, 2},
		{"removed", kvtest.Batch(kvtest.Event("BlockRemoved", kvtest.Removed(11, 12)...)), []string{"- 11 tier 0", "- 12 tier 0"}, 0},
		{"removed, as an array", kvtest.Batch(kvtest.ArrayEvent("BlockRemoved", field("", []any{11}), field("", "CPU"), field("", 0))), []string{"- 11 tier 1"}, 0},
		{"removed, as an early array", kvtest.Batch(kvtest.ArrayEvent("BlockRemoved", field("", []any{11}))), []string{"- 11 tier 0"}, 0},
		{
			"cleared between", kvtest.Batch(kvtest.Event("BlockRemoved", kvtest.Removed(1)...), kvtest.ArrayEvent("AllBlocksCleared"), kvtest.Event("BlockRemoved", kvtest.Removed(2)...)),
			[]string{"- 1 tier 0", "clear", "- 2 tier 0"},
			0,
		},
		{"an event that isn't known", kvtest.Batch(kvtest.Event("BlockMoved", field("x", 1)), kvtest.Event("BlockRemoved", kvtest.Removed(2)...)), []string{"- 2 tier 0"}, 0},
		{"nothing", kvtest.Batch(), nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decode(testSize, tc.batch)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.changes, tc.want) || got.skipped != tc.skipped {
				t.Errorf("changes\n%q and %d skipped, want\n%q and %d", got.changes, got.skipped, tc.want, tc.skipped)
			}
		})
	}
}

func reversed(f []kvtest.Field) []kvtest.Field {
	out := slices.Clone(f)
	slices.Reverse(out)
	return out
}

func TestDecodeFaults(t *testing.T) {
	whole := kvtest.Batch(kvtest.Event("BlockStored", kvtest.Stored(nil, testSize, tokens(1, 4), 11)...))
	event := func(fields ...kvtest.Field) []byte { return kvtest.Batch(kvtest.Event("BlockStored", fields...)) }
	for _, tc := range []struct {
		name  string
		batch []byte
	}{
		{"empty", nil},
		{"a number", []byte{1}},
		{"no events", msgp.AppendInt(msgp.AppendArrayHeader(nil, 1), 1)},
		{"a map without events", msgp.AppendMapHeader(nil, 0)},
		{"cut short", whole[:len(whole)-2]},
		{"events of another type", msgp.AppendString(msgp.AppendInt(msgp.AppendArrayHeader(nil, 2), 1), "x")},
		{"an event of another type", kvtest.Batch(msgp.AppendInt(nil, 3))},
		{"an event without a tag", kvtest.Batch(msgp.AppendArrayHeader(nil, 0))},
		{"a tag that is no text", kvtest.Batch(msgp.AppendInt(msgp.AppendArrayHeader(nil, 1), 3))},
		{"no hashes", event(kvtest.Stored(nil, testSize, tokens(1, 4))[1:]...)},
		{"fewer tokens", event(kvtest.Stored(nil, testSize, tokens(1, 3), 11)...)},
		{"more tokens", event(kvtest.Stored(nil, testSize, tokens(1, 5), 11)...)},
		{"a token that is no number", event(append([]kvtest.Field{{Name: "token_ids", Value: []any{1, 2, 3, "4"}}}, reversed(kvtest.Stored(nil, testSize, nil, 11))[:2]...)...)},
		{"a parent that is no hash", event(kvtest.Stored([]any{}, testSize, tokens(1, 4), 11)...)},
		{"removed without hashes", kvtest.Batch(kvtest.Event("BlockRemoved"))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := decode(testSize, tc.batch); err == nil {
				t.Errorf("changes %q, want an error", got.changes)
			}
		})
	}
}

// FuzzDecode compares events that were encoded in both ways with what they are made
// from, and checks that no bytes do harm.
func FuzzDecode(f *testing.F) {
	f.Add(uint64(1), kvtest.Batch(kvtest.Event("BlockStored", kvtest.Stored(nil, 1, tokens(1, 600), make([]uint64, 600)...)...)))
	f.Add(uint64(2), kvtest.Batch(kvtest.ArrayEvent("BlockRemoved", kvtest.Removed(1, 2)...), kvtest.Event("AllBlocksCleared")))
	f.Add(uint64(3), []byte("\x93\x01\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, seed uint64, raw []byte) {
		for _, size := range []int{1, 4, 1024} {
			if got, _ := decode(size, raw); got.largest > maxChanges {
				t.Fatalf("%d changes at once, want %d at most", got.largest, maxChanges)
			}
		}
		r := rand.New(rand.NewPCG(seed, 1))
		var events, arrays [][]byte
		var want []string
		for range r.IntN(6) {
			switch r.IntN(5) {
			case 0:
				events, arrays = append(events, kvtest.Event("AllBlocksCleared")), append(arrays, kvtest.ArrayEvent("AllBlocksCleared"))
				want = append(want, "clear")
			case 1:
				h := r.Uint64() >> r.IntN(64)
				events, arrays = append(events, kvtest.Event("BlockRemoved", kvtest.Removed(h)...)), append(arrays, kvtest.ArrayEvent("BlockRemoved", kvtest.Removed(h)...))
				want = append(want, fmt.Sprintf("- %d tier 0", h))
			default:
				n, size := 1+r.IntN(300), testSize
				hashes, ids := make([]uint64, n), make([]uint32, n*size)
				for i := range hashes {
					hashes[i] = r.Uint64() >> r.IntN(64)
				}
				for i := range ids {
					ids[i] = r.Uint32() >> r.IntN(32)
				}
				var parent any
				behind := "nothing"
				if h := r.Uint64(); h&1 != 0 {
					parent, behind = h, fmt.Sprint(h)
				}
				fields := kvtest.Stored(parent, size, ids, hashes...)
				events, arrays = append(events, kvtest.Event("BlockStored", fields...)), append(arrays, kvtest.ArrayEvent("BlockStored", fields...))
				for i, h := range hashes {
					want = append(want, fmt.Sprintf("+ %d behind %s tier 0 content %x seed 0", h, behind, content(ids[i*size:(i+1)*size])))
					behind = fmt.Sprint(h)
				}
			}
		}
		for _, b := range [][]byte{kvtest.Batch(events...), kvtest.Batch(arrays...)} {
			if got, err := decode(testSize, b); err != nil || !slices.Equal(got.changes, want) {
				t.Fatalf("changes %q, %v, want %q", got.changes, err, want)
			}
		}
	})
}
