package worker

import (
	"fmt"
	"reflect"
	"testing"
)

// The sum of the ranks' books has every number of each of them.
func TestSum(t *testing.T) {
	filled := func(n int) (s Stats) {
		v := reflect.ValueOf(&s).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInt() {
				f.SetInt(int64(n * (i + 1)))
			}
		}
		s.Ranks = map[int]int64{n: int64(n), 9: int64(n)}
		return s
	}
	want := filled(6)
	want.Ranks = map[int]int64{1: 1, 2: 2, 3: 3, 9: 6}
	if got := sum([]Stats{filled(1), filled(2), filled(3)}); !reflect.DeepEqual(got, want) {
		t.Errorf("the sum is %+v, want %+v", got, want)
	}
}

// However often it is asked, a closed worker says the same, and what a caller
// does with it is the caller's affair.
func TestStatsAfterClose(t *testing.T) {
	for _, ranks := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d ranks", ranks), func(t *testing.T) {
			cfg := quick()
			cfg.Ranks = ranks
			w := open(t, cfg)
			for _, rank := range []string{"0", "1"} {
				post(t.Context(), w, completions, `{"prompt":"x","max_tokens":1}`, "X-Data-Parallel-Rank", rank)
			}
			w.Close()
			for range 3 {
				s := w.Stats()
				if got, want := fmt.Sprint(s.Completed, s.Ranks), "2 map[0:1 1:1]"; got != want {
					t.Errorf("completed and ranks are %s, want %s", got, want)
				}
				s.Ranks[1] = 7
			}
		})
	}
}
