//go:build !race

package rawjson

import (
	"strings"
	"testing"
	"time"
)

// hostile are texts that cost much if they are read carelessly.
var hostile = []struct {
	name string
	text func(n int) string
}{
	{"members", func(n int) string { return `{"z":0` + strings.Repeat(`,"":0`, n/5) + `}` }},
	{"members of one name", func(n int) string { return `{"z":0` + strings.Repeat(`,"a":0`, n/6) + `}` }},
	{"names in escapes", func(n int) string { return `{"z":0` + strings.Repeat(`,"\u0061":0`, n/11) + `}` }},
	{"deep arrays", func(n int) string { return `{"z":` + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) + `}` }},
	{"deep objects", func(n int) string {
		return `{"z":` + strings.Repeat(`{"":`, n/5) + "0" + strings.Repeat("}", n/5) + `}`
	}},
	{"open brackets", func(n int) string { return `{"z":` + strings.Repeat("[", n) }},
	{"backslashes", func(n int) string { return `{"z":"` + strings.Repeat(`\`, n) }},
	{"escaped quotes", func(n int) string { return `{"z":"` + strings.Repeat(`\"`, n/2) + `"}` }},
	{"quotes", func(n int) string { return `{"z":[""` + strings.Repeat(`,""`, n/3) + `]}` }},
	{"long name", func(n int) string { return `{"` + strings.Repeat(`\u0061`, n/6) + `":0}` }},
	{"space", func(n int) string { return `{"z":0` + strings.Repeat(" ", n) + `}` }},
}

// TestLinear reads and edits hostile texts: twice as much takes about twice the
// time, not four times. The slack and the further tries are for busy machines; what
// is square takes far longer. The race detector has nothing to find here.
func TestLinear(t *testing.T) {
	edits := []Edit{{Name: "a", Value: []byte("1")}, {Op: Delete, Name: "b"}}
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			cost := func(n int) time.Duration {
				text := []byte(tt.text(n))
				begin := time.Now()
				dst, ok := AppendEdited(nil, text, edits)
				if ok && len(dst) > len(text)+10 {
					t.Fatalf("%d bytes became %d", len(text), len(dst))
				}
				Member(text, "a")
				return time.Since(begin)
			}
			const n = 1 << 20
			for try := 1; ; try++ {
				once, twice := cost(n), cost(2*n)
				if twice <= 3*once+2*time.Second {
					break
				}
				if try == 3 {
					t.Fatalf("%d bytes take %v, twice as many %v", n, once, twice)
				}
			}
		})
	}
}
