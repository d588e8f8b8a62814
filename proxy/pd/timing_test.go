package pd

import (
	"strings"
	"testing"
)

var benchBodies = []struct {
	name string
	body []byte
}{
	{"200", chatBody(200)},
	{"20k", chatBody(20_000)},
	{"1M", chatBody(1_000_000)},
}

// chatBody is a chat with about size bytes of prose.
func chatBody(size int) []byte {
	return []byte(`{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"` +
		strings.Repeat(`Name a river, \"please\".\n`, size/27+1) + `"}],"max_tokens":64,"temperature":0.5,"stream":true,"stream_options":{"include_usage":true}}`)
}

const benchKV = `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[11,12,13]],"remote_engine_id":"e","remote_request_id":"x","remote_host":"192.0.2.10","remote_port":5601,"tp_size":2}`

func BenchmarkAppendPrefill(b *testing.B) {
	kv := testPair(NIXL).AppendPrefillKV(nil)
	for _, bm := range benchBodies {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.body)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst, _ = AppendPrefill(dst[:0], bm.body, Chat, kv)
			}
		})
	}
}

func BenchmarkAppendDecode(b *testing.B) {
	for _, bm := range benchBodies {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.body)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst, _ = AppendDecode(dst[:0], bm.body, Chat, []byte(benchKV))
			}
		})
	}
}

func BenchmarkReadRequest(b *testing.B) {
	for _, bm := range benchBodies {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.body)))
			b.ReportAllocs()
			for b.Loop() {
				ReadRequest(bm.body, Chat)
			}
		})
	}
}

// BenchmarkEvents is what a piece of a stream costs that holds one event.
func BenchmarkEvents(b *testing.B) {
	for _, bm := range []struct{ name, piece string }{
		{"text", "data: {\"id\":\"chatcmpl-d1\",\"object\":\"chat.completion.chunk\",\"created\":1800000001,\"model\":\"demo-7b\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Danube\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"},
		{"escaped", "data: {\"id\":\"chatcmpl-d1\",\"object\":\"chat.completion.chunk\",\"created\":1800000001,\"model\":\"demo-7b\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\u30c9\\u30ca\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"},
		{"usage", "data: {\"id\":\"chatcmpl-d1\",\"object\":\"chat.completion.chunk\",\"created\":1800000001,\"model\":\"demo-7b\",\"choices\":[],\"usage\":{\"prompt_tokens\":14,\"total_tokens\":17,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":13}}}\n\n"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			e := NewEvents(Chat, usageOf(b))
			piece := []byte(bm.piece)
			b.SetBytes(int64(len(piece)))
			b.ReportAllocs()
			for b.Loop() {
				e.Rewrite(piece)
			}
		})
	}
}

// BenchmarkAnswer is what a piece of 4 kB costs of an answer that is one object.
func BenchmarkAnswer(b *testing.B) {
	a := NewAnswer(Chat, usageOf(b))
	a.Rewrite([]byte(`{"choices":[{"message":{"content":"`))
	piece := []byte(strings.Repeat(`Name a river, \"please\".\n`, 4096/27))
	b.SetBytes(int64(len(piece)))
	b.ReportAllocs()
	for b.Loop() {
		a.Rewrite(piece)
	}
}
