package routekey

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func FuzzScan(f *testing.F) {
	for _, b := range oddBodies() {
		f.Add(b)
	}
	f.Add([]byte(`{"\messages":[1],"\u\\prompt":2,"p\u0072ompt":"\x"}`))
	f.Add(tinyBody())
	f.Add(toolsBody()[:3000])
	f.Add(escapedBody(300))
	f.Add(escapedStringsBody(300))
	f.Add(tokensBody(300))
	var s Scanner
	f.Fuzz(func(t *testing.T, body []byte) {
		s.Limit = 0
		checkScan(t, &s, body)
		s.Limit = 1 + len(body)%97
		checkScan(t, &s, body)
	})
}

// TestScanAgainstSlow puts the characters that matter together at random, more
// densely than a fuzzer finds them.
func TestScanAgainstSlow(t *testing.T) {
	tokens := []string{
		`"`, `"`, `\`, `\\`, `\"`, `[`, `]`, `{`, `}`, `,`, `:`, "a", "y_Y\x7f", " ", "\n", "\x00", "\xc3\xa9",
		"\xa2\xdc\xdb\xdd\xfb\xfd", `"model":"m"`, `"prompt":"`, `"messages":[`, `"user":1`, strings.Repeat("x", 70),
		strings.Repeat(`\`, 63), `\u0022`,
	}
	r := rand.New(rand.NewPCG(11, 12))
	var s Scanner
	for range 20_000 {
		var b []byte
		switch r.IntN(4) {
		case 0:
			b = append(b, `{"prompt":"`...)
		case 1:
			b = append(b, `{"model":"m","messages":[`...)
		case 2:
			b = append(b, `{"input":{`...)
		}
		few := 1 + r.IntN(len(tokens)) // a few kinds only, or all
		from := r.IntN(len(tokens))
		for range r.IntN(120) {
			b = append(b, tokens[(from+r.IntN(few))%len(tokens)]...)
		}
		b = append(b, []string{``, `}`, `"}`, `"]}`, `]}`, `}}`}[r.IntN(6)]...)
		checkScan(t, &s, b)
	}
}

// FuzzGrow checks that the key of a longer conversation begins with the key of
// the shorter one, and that two keys have as many blocks in common as the bytes
// they are made of.
func FuzzGrow(f *testing.F) {
	f.Add("You are kind.", "Hello\nthere", "\"quoted\" \\ text", "more", uint8(1), uint8(7))
	f.Add(strings.Repeat("long ", 400), "", strings.Repeat("é", 99), "x", uint8(3), uint8(200))
	f.Fuzz(func(t *testing.T, system, user, answer, next string, turns, order uint8) {
		var messages []string
		for i := range 2 + int(turns%8)*2 {
			role, content := "user", user
			switch {
			case i == 0:
				role, content = "system", system
			case i%2 == 0:
				role, content = "assistant", answer
			}
			messages = append(messages, fmt.Sprintf(`{"role":%s,"content":%s}`, quoted(role), quoted(content+strings.Repeat(next, i%3))))
		}
		short := messages[:1+int(order)%len(messages)]
		a := conversation(short, system, order)
		b := conversation(messages, system, order/2)
		var sa, sb Scanner
		if !sa.Scan(a) || !sb.Scan(b) {
			t.Fatalf("%q or %q was not read", a, b)
		}
		if len(sb.Key.Blocks) < len(sa.Key.Blocks) || !slices.Equal(sa.Key.Blocks, sb.Key.Blocks[:len(sa.Key.Blocks)]) {
			t.Fatalf("%q begins with %q, but Blocks is %x and %x", b, a, sb.Key.Blocks, sa.Key.Blocks)
		}

		// A prompt that grows, and one that is another from some byte on.
		p := fmt.Appendf(nil, `{"prompt":%s}`, quoted(system+user))
		q := fmt.Appendf(nil, `{"prompt":%s}`, quoted(system+user+next))
		other := fmt.Appendf(nil, `{"prompt":%s}`, quoted(system+answer))
		for _, pair := range [][2][]byte{{p, q}, {p, other}, {q, other}, {a, p}, {a, b}} {
			checkCommon(t, pair[0], pair[1])
		}
	})
}

// conversation puts the messages into a body with its members in an order that
// must not matter.
func conversation(messages []string, tool string, order uint8) []byte {
	members := []string{
		`"model":"m"`,
		`"messages": [` + strings.Join(messages, ", ") + ` ]`,
		`"tools":[{"type":"function","function":{"name":` + quoted(tool) + `}}]`,
		`"temperature":0.5`,
	}
	r := rand.New(rand.NewPCG(uint64(order), 1))
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return []byte("{" + strings.Join(members, ",") + "}")
}

// checkCommon checks that the keys of a and b have the blocks in common that
// their bytes have in common. The bodies must be of one namespace.
func checkCommon(t *testing.T, a, b []byte) {
	t.Helper()
	ma, _ := slowValues(a)
	mb, _ := slowValues(b)
	if ma["model"] != mb["model"] {
		return
	}
	streamA, _ := slowStream(ma)
	streamB, _ := slowStream(mb)
	var sa, sb Scanner
	sa.Scan(a)
	sb.Scan(b)
	want := common(streamA, streamB) / 64
	if got := common(sa.Key.Blocks, sb.Key.Blocks); got != want {
		t.Fatalf("%q and %q have %d blocks in common, want %d", a, b, got, want)
	}
	for i := want; i < min(len(sa.Key.Blocks), len(sb.Key.Blocks)); i++ {
		if sa.Key.Blocks[i] == sb.Key.Blocks[i] {
			t.Fatalf("%q and %q have the same block %d, but differ before it", a, b, i)
		}
	}
	sameHead := bytes.Equal(streamA[:min(1024, len(streamA))], streamB[:min(1024, len(streamB))])
	if got := sa.Key.Head == sb.Key.Head; got != sameHead && len(streamA) > 0 {
		t.Fatalf("%q and %q: same Head is %v, want %v", a, b, got, sameHead)
	}
}

// common is the length of the longest common prefix.
func common[T comparable](a, b []T) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
