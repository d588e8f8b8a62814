package httphead

import "testing"

// typicalHead is what an engine behind uvicorn answers.
const typicalHead = "HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: 1234\r\n" +
	"content-type: application/json\r\nx-request-id: 0123456789abcdef0123456789abcdef\r\n\r\n"

func BenchmarkParseAnswer(b *testing.B) {
	head := []byte(typicalHead)
	b.ReportAllocs()
	b.SetBytes(int64(len(head)))
	var a Answer
	for b.Loop() {
		if err := a.ParseAnswer(head[:HeadEnd(head, 0)]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendLines(b *testing.B) {
	var a Answer
	if err := a.ParseAnswer([]byte(typicalHead)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	dst := make([]byte, 0, 4096)
	for b.Loop() {
		dst = a.AppendLines(dst[:0], "x-request-id")
	}
}
