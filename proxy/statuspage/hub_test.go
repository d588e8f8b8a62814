package statuspage

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what is due at once, on a busy machine too.
const patience = 20 * time.Second

// frameOf waits for a viewer's next frame; ok is false when there are no more.
func frameOf(t *testing.T, v *Viewer) (frame string, ok bool) {
	t.Helper()
	select {
	case f, ok := <-v.Frames():
		return string(f), ok
	case <-time.After(patience):
		t.Fatal("no frame")
		return "", false
	}
}

func join(t *testing.T, h *Hub) *Viewer {
	t.Helper()
	v, err := h.Join()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// waitUnwatched waits until the hub has seen that everybody left.
func waitUnwatched(t *testing.T, h *Hub) {
	t.Helper()
	for end := time.Now().Add(patience); h.Watched(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the hub is still watched")
		}
	}
}

// TestHubSharesFrames: a frame is made once for all viewers, the first at once, and
// none while nobody watches.
func TestHubSharesFrames(t *testing.T) {
	made := make(chan int, 1<<16) // more than a test is slow
	n := 0
	h := NewHub(time.Millisecond, func(*Observed) []byte {
		n++
		select {
		case made <- n:
		default:
		}
		return fmt.Append(nil, n)
	})
	defer h.End()
	if h.Watched() {
		t.Error("watched before anybody joined")
	}
	select {
	case <-made:
		t.Error("a frame was made for nobody")
	case <-time.After(20 * time.Millisecond):
	}
	first, second := join(t, h), join(t, h)
	if !h.Watched() {
		t.Error("not watched by two viewers")
	}
	last := 0
	for range 5 {
		for _, v := range []*Viewer{first, second} {
			text, _ := frameOf(t, v)
			var got int
			if _, err := fmt.Sscan(text, &got); err != nil {
				t.Fatal(err)
			}
			last = max(last, got)
		}
	}
	if last < 5 || last > len(made)+5 {
		t.Errorf("frame %d was shown and %d were made, want them shared", last, len(made))
	}
	first.Leave()
	if !h.Watched() {
		t.Error("not watched though one is left")
	}
	second.Leave()
	waitUnwatched(t, h)
	second.Leave() // once more does nothing
	for len(made) > 0 {
		<-made
	}
	select {
	case <-made:
		t.Error("a frame was made for those who left")
	case <-time.After(20 * time.Millisecond):
	}
}

// TestSlowViewer: who takes no frame gets the newest afterwards, and holds up nobody.
func TestSlowViewer(t *testing.T) {
	n := 0
	h := NewHub(time.Millisecond, func(*Observed) []byte { n++; return fmt.Append(nil, n) })
	defer h.End()
	slow, quick := join(t, h), join(t, h)
	last := ""
	for range 20 {
		last, _ = frameOf(t, quick)
	}
	var got, want int
	text, _ := frameOf(t, slow)
	if _, err := fmt.Sscan(text+" "+last, &got, &want); err != nil {
		t.Fatal(err)
	}
	if got < want-1 {
		t.Errorf("the slow viewer got frame %d, want the newest, at least %d", got, want-1)
	}
}

// TestViewersAreBounded: who comes above the bound is refused, and let in when
// another has left.
func TestViewersAreBounded(t *testing.T) {
	h := NewHub(time.Hour, func(*Observed) []byte { return []byte("x") })
	defer h.End()
	var all []*Viewer
	for range MaxViewers {
		all = append(all, join(t, h))
	}
	if _, err := h.Join(); !errors.Is(err, ErrFull) {
		t.Errorf("error %v, want ErrFull", err)
	}
	all[7].Leave()
	join(t, h)
	if _, err := h.Join(); !errors.Is(err, ErrFull) {
		t.Errorf("error %v, want ErrFull", err)
	}
}

// TestHubEnds: with the hub ends every viewer's stream, and nobody joins any more.
func TestHubEnds(t *testing.T) {
	h := NewHub(time.Hour, func(*Observed) []byte { return []byte("x") })
	v := join(t, h)
	if f, ok := frameOf(t, v); !ok || f != "x" {
		t.Errorf("frame %q, %v, want x", f, ok)
	}
	h.End()
	h.End()
	if f, ok := frameOf(t, v); ok {
		t.Errorf("frame %q behind the end", f)
	}
	v.Leave()
	if _, err := h.Join(); !errors.Is(err, ErrOver) {
		t.Errorf("error %v, want ErrOver", err)
	}
	if h.Watched() {
		t.Error("an ended hub is watched")
	}
	h.Decided(Decision{})
}

// TestNoFrame: a router that has ended gives none, and its viewers wait for the end.
func TestNoFrame(t *testing.T) {
	h := NewHub(time.Millisecond, func(*Observed) []byte { return nil })
	v := join(t, h)
	select {
	case f := <-v.Frames():
		t.Errorf("frame %q, want none", f)
	case <-time.After(20 * time.Millisecond):
	}
	h.End()
}

// TestObserved: answers and decisions are added up for the second, by worker, and
// the last decisions are kept, newest first; those who come later see none of it.
func TestObserved(t *testing.T) {
	frame := func(o *Observed) []byte {
		var b strings.Builder
		w := o.Of("http://a")
		fmt.Fprintf(&b, "%d %.1f %.1f %d %d %d", w.Answers, w.Mean, w.Worst, w.Blocks, w.Matched, o.Of("http://b").Answers)
		for _, d := range o.Decisions() {
			b.WriteString(" " + d.ID)
		}
		return []byte(b.String())
	}
	h := NewHub(time.Hour, frame)
	v := join(t, h)
	if f, _ := frameOf(t, v); f != "0 0.0 0.0 0 0 0" {
		t.Errorf("the first frame is %q, want nothing in it", f)
	}
	h.Answered("http://a", time.Second)
	h.Decided(Decision{ID: "lost", Worker: "http://a"})
	v.Leave()
	waitUnwatched(t, h)
	h.Answered("http://a", time.Second) // by one who had looked just before
	if f, _ := frameOf(t, join(t, h)); f != "0 0.0 0.0 0 0 0" {
		t.Errorf("the first frame of another is %q, want nothing in it", f)
	}
	h.End()

	var o Observed
	for i := range 60 {
		o.note(&observation{decision: Decision{ID: fmt.Sprint(i), Worker: "http://a", Blocks: 10, Match: 3}})
	}
	o.note(&observation{worker: "http://a", after: time.Second})
	o.note(&observation{worker: "http://a", after: 3 * time.Second})
	o.note(&observation{worker: "http://b", after: time.Second})
	got := strings.Fields(string(frame(&o)))
	if head := strings.Join(got[:6], " "); head != "2 2.0 3.0 600 180 1" {
		t.Errorf("observed %q, want 2 2.0 3.0 600 180 1", head)
	}
	if ids := got[6:]; len(ids) != maxDecisions || ids[0] != "59" || ids[1] != "58" || ids[len(ids)-1] != "10" {
		t.Errorf("decisions %v, want the last %d, newest first", ids, maxDecisions)
	}
	o.next()
	if f := string(frame(&o)); !strings.HasPrefix(f, "0 0.0 0.0 0 0 0 59 58") {
		t.Errorf("the second behind it begins with %.30q, want its sums empty and the decisions kept", f)
	}
}
