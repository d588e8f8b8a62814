package rawjson

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestUnescape(t *testing.T) {
	for _, tt := range []struct{ name, inside, want string }{
		{"plain", `a é`, "a é"},
		{"every escape", `\"\\\/\b\f\n\r\t\u00E9\u00e9`, "\"\\/\b\f\n\r\téé"},
		{"a pair", `x\ud83d\ude00y`, "x😀y"},
		{"half a pair", `\ud83dx`, "\ufffdx"},
		{"the other half", `\ude00x`, "\ufffdx"},
		{"two first halves", `\ud83d\ud83d\ude00`, "\ufffd😀"},
		{"half a pair and another escape", `\ud83d\n\u0061`, "\ufffd\na"},
		{"half a pair and a letter", `\ud83d\u0061`, "\ufffda"},
		{"half a pair and a cut escape", `\ud83d\u00`, "\ufffdu00"},
		{"no such escape", `\x\'`, "x'"},
		{"no digits", `\u00g0`, "u00g0"},
		{"cut", `a\u00`, "au00"},
		{"backslash at the end", `a\`, `a\`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := string(Unescape([]byte("before "), []byte(tt.inside))), "before "+tt.want; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestStringsAgainstSlow reads strings and brackets of all lengths, dense with
// what matters, over the borders of the blocks that are looked at together.
func TestStringsAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	parts := []string{`\\`, `\"`, `\n`, `\u0061`, `\ud83d\ude00`, "é", "]", "}", "[", "{", ",", ":", "x", "xxxxxxx", strings.Repeat("y", 70)}
	text := func() string {
		var b strings.Builder
		b.WriteByte('"')
		few, from := 1+r.IntN(len(parts)), r.IntN(len(parts))
		for range r.IntN(90) {
			b.WriteString(parts[(from+r.IntN(few))%len(parts)])
		}
		b.WriteByte('"')
		return b.String()
	}
	for range 1000 {
		a, b, c := text(), text(), text()
		checkObject(t, []byte(`{`+a+`:[`+b+`,[],{`+c+`:`+a+`}],"z":{"y":[`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`],"x":`+b+`}}`))
		checkObject(t, []byte(`[`+a+`,{`+b+`:[`+c+`]},`+c+`]`))
		var want string
		if err := json.Unmarshal([]byte(a), &want); err != nil {
			t.Fatal(err)
		}
		if got := string(Unescape(nil, []byte(a[1:len(a)-1]))); got != want {
			t.Fatalf("%s is %q, want %q", a, got, want)
		}
	}
}
