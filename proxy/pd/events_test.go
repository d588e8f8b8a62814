package pd

import (
	"strings"
	"testing"
)

const (
	usageReply = `{"usage":{"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":8}}}`
	wrongUsage = `{"choices":[],"usage":{"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":13}}}`
	rightUsage = `{"choices":[],"usage":{"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":8}}}`
	noUsage    = `{"choices":[],"usage":{"prompt_tokens":14,"prompt_tokens_details":{}}}`
)

func usageOf(t testing.TB) *Reply {
	t.Helper()
	r, err := ReadReply([]byte(usageReply))
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// TestEvents has streams in which W stands for a usage that is wrong, and W or R
// for what it becomes.
func TestEvents(t *testing.T) {
	for _, tt := range []struct {
		name, stream, want string
	}{
		{"nothing", "", ""},
		{"line feeds", "data: W\n\n", "data: R\n\n"},
		{"carriage returns and line feeds", "data: W\r\n\r\ndata: W\r\n\r\n", "data: R\r\n\r\ndata: R\r\n\r\n"},
		{"carriage returns", "data: W\r\rdata: W\r\r", "data: R\r\rdata: R\r\r"},
		{"all of them", "event: x\rdata: W\r\n\ndata: W\n\r\ndata: W\n\r", "event: x\rdata: R\r\n\ndata: R\n\r\ndata: R\n\r"},
		{"no space", "data:W\n\n", "data:R\n\n"},
		{"much space", "data:   W \t\n\n", "data:   R \t\n\n"},
		{"comments, names and ids", ": hello\nid: 7\nevent: usage\ndata: W\nretry: 10\n\n: ping\n\n", ": hello\nid: 7\nevent: usage\ndata: R\nretry: 10\n\n: ping\n\n"},
		{"usage in each event", "data: W\n\ndata: {\"x\":1}\n\ndata: W\n\ndata: [DONE]\n\n", "data: R\n\ndata: {\"x\":1}\n\ndata: R\n\ndata: [DONE]\n\n"},
		{"blank lines", "\n\n\r\n\rdata: W\n\n\n\n", "\n\n\r\n\rdata: R\n\n\n\n"},
		{"data over several lines", "data: {\ndata: \"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":13}}}\n\n", "data: {\ndata: \"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":13}}}\n\n"},
		{"empty data besides", "data\ndata: W\n\n", "data\ndata: W\n\n"},
		{"another field of like name", "data2: W\n\nxdata: W\n\n", "data2: W\n\nxdata: W\n\n"},
		{"no blank line at the end", "data: {}\n\ndata: W\n", "data: {}\n\ndata: R\n"},
		{"no line end at the end", "data: W", "data: R"},
		{"cut in an event", "data: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":13", "data: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":13"},
		{"not JSON", "data: usage\" W\n\n", "data: usage\" W\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stream := strings.ReplaceAll(tt.stream, "W", wrongUsage)
			want := strings.NewReplacer("W", wrongUsage, "R", rightUsage).Replace(tt.want)
			checkEventsCuts(t, Chat, usageOf(t), stream, want)
		})
	}
}

func TestEventsOfResponses(t *testing.T) {
	r, err := ReadReply([]byte(`{"usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":4}}}`))
	if err != nil {
		t.Fatal(err)
	}
	const (
		created = "event: response.created\ndata: {\"response\":{\"id\":\"x\",\"usage\":null}}\n\n"
		wrong   = "event: response.completed\ndata: {\"response\":{\"kv_transfer_params\":{},\"usage\":{\"input_tokens\":12,\"input_tokens_details\":{\"cached_tokens\":11}}}}\n\n"
		right   = "event: response.completed\ndata: {\"response\":{\"kv_transfer_params\":null,\"usage\":{\"input_tokens\":12,\"input_tokens_details\":{\"cached_tokens\":4}}}}\n\n"
	)
	checkEventsCuts(t, Responses, &r, created+wrong, created+right)
	checkEventsCuts(t, Chat, &r, wrong, wrong)

	e := NewEvents(Responses, nil)
	if got := string(e.Rewrite([]byte(created))); got != created || e.Waiting() {
		t.Errorf("the event without usage gives %q, waiting is %v", got, e.Waiting())
	}
	if got := string(e.Rewrite([]byte(wrong))); got != "" || !e.Waiting() {
		t.Errorf("the event with usage gives %q, waiting is %v", got, e.Waiting())
	}
	e.Know(&r)
	if got := string(e.Rewrite(nil)) + string(e.Close()); got != right {
		t.Errorf("got %q, want %q", got, right)
	}
}

func TestEventsWait(t *testing.T) {
	const (
		plain = "data: {\"usage\":null}\n\n"
		wrong = "data: " + wrongUsage + "\n\n"
		right = "data: " + rightUsage + "\n\n"
		none  = "data: " + noUsage + "\n\n"
		done  = "data: [DONE]\n\n"
	)
	t.Run("known in time", func(t *testing.T) {
		e := NewEvents(Chat, nil)
		if got := string(e.Rewrite([]byte(plain))); got != plain || e.Waiting() {
			t.Errorf("got %q, waiting is %v", got, e.Waiting())
		}
		e.Know(usageOf(t))
		if got, want := string(e.Rewrite([]byte(wrong+done))), right+done; got != want || e.Waiting() {
			t.Errorf("got %q, waiting is %v, want %q", got, e.Waiting(), want)
		}
	})
	t.Run("known later", func(t *testing.T) {
		e := NewEvents(Chat, nil)
		if got := string(e.Rewrite([]byte(plain + wrong + plain))); got != plain || !e.Waiting() {
			t.Errorf("got %q, waiting is %v, want %q", got, e.Waiting(), plain)
		}
		if got := string(e.Rewrite([]byte("data: {"))); got != "" || !e.Waiting() {
			t.Errorf("got %q, waiting is %v", got, e.Waiting())
		}
		e.Know(usageOf(t))
		if e.Waiting() {
			t.Error("still waiting")
		}
		if got, want := string(e.Rewrite(nil)), right+plain; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := string(e.Rewrite([]byte("}\n\n"+wrong))), "data: {}\n\n"+right; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("over any cuts", func(t *testing.T) {
		stream := plain + "\r\n: x\n\n" + wrong + plain + wrong + done
		for cut := range len(stream) {
			for known := 0; known < len(stream); known += 5 {
				e := NewEvents(Chat, nil)
				var got []byte
				for i, c := range []byte(stream) {
					switch {
					case i < cut:
						got = append(got, e.Rewrite([]byte{c})...)
					case i == cut:
						got = append(got, e.Rewrite([]byte(stream[cut:]))...)
					}
					if i == known {
						e.Know(usageOf(t))
					}
				}
				got = append(append(got, e.Rewrite(nil)...), e.Close()...)
				if want := plain + "\r\n: x\n\n" + right + plain + right + done; string(got) != want {
					t.Fatalf("cut at %d, known at %d: got %q, want %q", cut, known, got, want)
				}
			}
		}
	})
	t.Run("never known", func(t *testing.T) {
		e := NewEvents(Chat, nil)
		e.Rewrite([]byte(wrong + wrong + "data: "))
		if got, want := string(e.Close()), none+none+"data: "; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("too much held back", func(t *testing.T) {
		e := NewEvents(Chat, nil)
		e.Rewrite([]byte(wrong))
		big := ": " + strings.Repeat("x", maxEvent) + "\n\n"
		if got, want := string(e.Rewrite([]byte(big))), none+big; got != want || e.Waiting() {
			t.Errorf("got %d bytes, waiting is %v, want %d", len(got), e.Waiting(), len(want))
		}
	})
	t.Run("other kinds", func(t *testing.T) {
		e := NewEvents(Messages, nil)
		const hidden = "data: {\"usage\":{},\"kv_transfer_params\":null}\n\n"
		if got := string(e.Rewrite([]byte("data: {\"usage\":{},\"kv_transfer_params\":{}}\n\n"))); got != hidden || e.Waiting() {
			t.Errorf("got %q, waiting is %v, want %q", got, e.Waiting(), hidden)
		}
	})
}

// TestEventsAreNotDelayed checks that an event passes with the last byte of the
// empty line that ends it, whatever that consists of.
func TestEventsAreNotDelayed(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n", "\r\n\r"} {
		e := NewEvents(Chat, usageOf(t))
		for i := range 3 {
			var got []byte
			for _, c := range []byte("data: " + wrongUsage + end) {
				got = append(got, e.Rewrite([]byte{c})...)
			}
			if want := "data: " + rightUsage + end; string(got) != want {
				t.Errorf("event %d that ends in %q gives %q at once, want %q", i, end, got, want)
			}
		}
	}
}

// TestEventsBound passes an event that is too large and goes on with the next.
func TestEventsBound(t *testing.T) {
	wrong, right := "data: "+wrongUsage+"\n\n", "data: "+rightUsage+"\n\n"
	big := "data: {\"usage\":{\"prompt_tokens\":9},\"x\":\"" + strings.Repeat("x", 2*maxEvent) + "\"}\n\n"
	for _, size := range []int{16 << 10, 1 << 20, maxEvent, 3 * maxEvent} {
		e := NewEvents(Chat, usageOf(t))
		var got []byte
		most := 0
		for stream := []byte(wrong + big + wrong); len(stream) > 0; {
			n := min(size, len(stream))
			got = append(got, e.Rewrite(stream[:n])...)
			stream = stream[n:]
			most = max(most, len(e.held))
		}
		got = append(got, e.Close()...)
		want := right + big + right
		if size > maxEvent { // it came whole, and nothing had to be held
			want = right + strings.Replace(big, ":9", ":14", 1) + right
			want = strings.Replace(want, `:14},"x"`, `:14,"prompt_tokens_details":{"cached_tokens":8}},"x"`, 1)
		}
		if string(got) != want {
			t.Errorf("in pieces of %d: got %d bytes, want %d", size, len(got), len(want))
		}
		if most > maxEvent {
			t.Errorf("in pieces of %d: %d bytes held, want at most %d", size, most, maxEvent)
		}
	}
}

// TestEventsPassUnchanged checks that pieces which end with an event and need no
// change are passed on themselves.
func TestEventsPassUnchanged(t *testing.T) {
	e := NewEvents(Chat, usageOf(t))
	piece := []byte("data: {\"choices\":[{\"delta\":{\"content\":\"Danube\"}}]}\n\n")
	got := e.Rewrite(piece)
	if len(got) != len(piece) || &got[0] != &piece[0] {
		t.Errorf("got a copy, %q", got)
	}
	if got, want := testing.AllocsPerRun(100, func() { e.Rewrite(piece) }), 0.0; got != want {
		t.Errorf("%v allocations, want %v", got, want)
	}
}
