//go:build !race

package httphead

import "testing"

// TestAllocations pins that a head is read and written without any allocation.
func TestAllocations(t *testing.T) {
	head := []byte(typicalHead)
	var a Answer
	dst := make([]byte, 0, 4096)
	got := testing.AllocsPerRun(100, func() {
		if err := a.ParseAnswer(head[:HeadEnd(head, 0)]); err != nil {
			t.Fatal(err)
		}
		dst = a.AppendLines(dst[:0], "x-request-id")
	})
	if want := 0.0; got != want {
		t.Errorf("%v allocations, want %v", got, want)
	}
}
