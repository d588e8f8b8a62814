package pd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseEngines(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		want         Engines
	}{
		{"engines by rank", `{"0":{"engine_id":"a","worker_addr":{"0":"x"}}, "1":{"engine_id":"b"}}`, Engines{{0, `"a"`}, {1, `"b"`}}},
		{"ranks by engine", `{"a":{"0":{"0":"x"}},"b":{"1":null,"2":[]}}`, Engines{{0, `"a"`}, {1, `"b"`}, {2, `"b"`}}},
		{"engine id that is a number", `{"7":{"0":{}}}`, Engines{{0, `"7"`}}},
		{"escapes", `{"0":{"engine\u005fid":"\u0061\""}}`, Engines{{0, `"\u0061\""`}}},
		{"many", many(maxEngines), manyEngines(maxEngines)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseEngines([]byte(tt.answer))
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// many is an answer with n ranks.
func many(n int) string {
	var ranks []string
	for i := range n {
		ranks = append(ranks, fmt.Sprintf(`"%d":{"engine_id":"e%d"}`, i, i))
	}
	return "{" + strings.Join(ranks, ",") + "}"
}

func manyEngines(n int) (engines Engines) {
	for i := range n {
		engines = append(engines, Engine{i, fmt.Sprintf(`"e%d"`, i)})
	}
	return engines
}

func TestParseEnginesRefuses(t *testing.T) {
	long := strings.Repeat("e", maxEngineID)
	ranks := strings.Repeat(`"1":0,`, maxEngines)
	for _, answer := range []string{
		"", "null", "[]", `"x"`, `{"0":1}`, `{"0":{}}`, `{"a":{"x":0}}`, `{"a":{"-1":0}}`, `{"x":{"engine_id":"a"}}`,
		`{"-1":{"engine_id":"a"}}`, `{"0":{"engine_id":7}}`, `{"0":{"engine_id":null}}`, `{"0":{"engine_id":"a"}`,
		`{"0":{"engine_id":"a"}}x`, `{"0":{"engine_id":"\x"}}`, `{"0":{"engine_id":"a"},"1":{}}`,
		`{"0":{"engine_id":"` + long + `"}}`, `{"` + long + `x":{"0":0}}`, many(maxEngines + 1), `{"e":{` + ranks + `"2":0}}`,
	} {
		if got, err := ParseEngines([]byte(answer)); err == nil || got != nil {
			t.Errorf("%.60q is read as %.200v", answer, got)
		}
	}
	if _, err := ParseEngines([]byte("{}")); !errors.Is(err, errNoEngine) {
		t.Errorf("no engine gives %v, want %v", err, errNoEngine)
	}
}

func TestEngineForRank(t *testing.T) {
	engines := Engines{{3, `"c"`}, {1, `"a"`}, {2, `"b"`}}
	for rank, want := range map[int]string{0: `"a"`, 1: `"a"`, 2: `"b"`, 3: `"c"`, 9: `"a"`} {
		if got, ok := engines.forRank(rank); got != want || !ok {
			t.Errorf("rank %d has %q, want %q", rank, got, want)
		}
	}
	if got, ok := Engines(nil).forRank(0); ok {
		t.Errorf("no engines have %q", got)
	}
}
