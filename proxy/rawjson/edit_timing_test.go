package rawjson

import (
	"strings"
	"testing"
)

func BenchmarkAppendEdited(b *testing.B) {
	edits := []Edit{
		{Name: "max_tokens", Value: []byte("1")},
		{Op: Delete, Name: "stream_options"},
		{Name: "kv_transfer_params", Value: []byte(`{"do_remote_decode":true}`)},
	}
	for _, bm := range []struct {
		name string
		size int
	}{{"200", 200}, {"20k", 20_000}, {"1M", 1_000_000}} {
		b.Run(bm.name, func(b *testing.B) {
			object := []byte(`{"model":"m","stream_options":{},"prompt":"` + strings.Repeat("x", bm.size) + `","max_tokens":100}`)
			var dst []byte
			b.SetBytes(int64(len(object)))
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = AppendEdited(dst[:0], object, edits)
			}
		})
	}
}

// TestAppendEditedAllocates pins that only the buffer costs memory.
func TestAppendEditedAllocates(t *testing.T) {
	object := []byte(`{"a":1,"\u0062":{"c":2},"d":[3]}`)
	edits := []Edit{{Op: Delete, Name: "a"}, {Name: "b", Value: []byte("1")}, {Name: "a_name_as_long_as_any_in_use_here_is", Value: []byte("2")}}
	dst := make([]byte, 0, 1024)
	if got, want := testing.AllocsPerRun(100, func() { AppendEdited(dst, object, edits) }), 0.0; got != want {
		t.Errorf("%v allocations, want %v", got, want)
	}
}
