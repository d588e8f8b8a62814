package routekey

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The bodies that benchmarks, allocation tests and the test of huge bodies use.

func proseBody(size int) []byte {
	const sentence = "The quick brown fox jumps over the lazy dog and, being asked why, says nothing at all.\\n"
	text := strings.Repeat(sentence, size/len(sentence)+1)[:size]
	return fmt.Appendf(nil, `{"model":"meta-llama/Llama-3-8B","stream":true,"messages":[{"role":"user","content":"%s"}]}`,
		strings.TrimRight(text, `\`))
}

func toolsBody() []byte {
	var tools []string
	for i := range 20 {
		tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"lookup_%d","description":"Looks up record %d in the named store and returns what it finds there, or an empty list.","strict":true,"parameters":{"type":"object","properties":{"store":{"type":"string","enum":["red","green","blue"]},"key":{"type":"string","description":"The record's key"},"limit":{"type":"integer","minimum":1,"maximum":%d},"options":{"type":"object","properties":{"deep":{"type":"boolean"},"since":{"type":"string"}}}},"required":["store","key"]}}}`, i, i, 100+i))
	}
	prose := proseBody(9000)
	return fmt.Appendf(nil, `{"tools":[%s],%s`, strings.Join(tools, ","), prose[1:])
}

func shortMessagesBody(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var messages []string
	for i := range n {
		role := [2]string{"user", "assistant"}[i%2]
		messages = append(messages, fmt.Sprintf(`{"role":"%s","content":"%s"}`, role, strings.Repeat("word ", 10+r.IntN(18))))
	}
	return fmt.Appendf(nil, `{"model":"m","messages":[%s],"stream":true,"temperature":0.7}`, strings.Join(messages, ","))
}

// escapedBody is a prompt full of escaped backslashes before quotes that are
// escaped too, at irregular distances.
func escapedBody(size int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	b := []byte(`{"model":"m","prompt":"`)
	for len(b) < size {
		b = append(b, "abcdef"[:1+r.IntN(6)]...)
		b = append(b, []string{`\\`, `\"`, `\\\"`, `\n`}[r.IntN(4)]...)
	}
	return append(b, `"}`...)
}

// escapedStringsBody is an array of strings that end in escaped backslashes.
func escapedStringsBody(size int) []byte {
	r := rand.New(rand.NewPCG(5, 6))
	b := []byte(`{"model":"m","prompt":[""`)
	for len(b) < size {
		b = append(b, `,"`...)
		b = append(b, "abcdef"[:1+r.IntN(6)]...)
		b = append(b, []string{`\\"`, `"`}[r.IntN(2)]...)
	}
	return append(b, `]}`...)
}

func tokensBody(n int) []byte {
	r := rand.New(rand.NewPCG(7, 8))
	b := []byte(`{"model":"m","prompt":[1`)
	for len(b) < n {
		b = fmt.Appendf(b, ",%d", r.IntN(128000))
	}
	return append(b, "]}"...)
}

func tinyBody() []byte {
	return []byte(`{"model":"meta-llama/Llama-3-8B","messages":[{"role":"system","content":"Answer in one word."},{"role":"user","content":"What is the capital of France?"}],"max_tokens":16,"temperature":0,"stream":true}`)
}

func manyMembersBody(size int) []byte {
	b := []byte(`{"model":"m"`)
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, `,"k%d":%d`, i%17, i%1000)
	}
	return append(b, '}')
}

func pairsBody(size int) []byte {
	return []byte(`{"messages":[` + strings.Repeat(`{},`, size/3) + `{}]}`)
}

func deepBody(size int) []byte {
	return []byte(`{"messages":` + strings.Repeat(`[`, size/2) + strings.Repeat(`]`, size/2) + `}`)
}
