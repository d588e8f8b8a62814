package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/statuspage"
)

// worker is one of a frame, as text of /workers.
func worker(url, admin string) statuspage.Worker {
	return statuspage.Worker{URL: url, Admin: []byte(admin)}
}

func texts(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%d %s\n", l.look, l.text)
	}
	return b.String()
}

// TestView: what a frame looks like, with each state that a worker may be in.
func TestView(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)
	f := statuspage.Frame{
		Time: at.UnixMilli(), Started: at.Add(-90 * time.Second).UnixMilli(), Version: "v1", Policy: "p", State: "ready", Usable: 1, Members: 7, Hidden: 3,
		Sections: []statuspage.Section{{Name: "Leases", Facts: []statuspage.Fact{{Name: "granted", Value: "7"}, {Name: "refused", Value: "1", Bad: true}}}, {Name: "Queue"}},
		Workers: []statuspage.Worker{
			worker("http://a", `{"is_healthy":true,"load":3,"breaker":"closed","worker_type":"decode","phases":{"reserved":2,"decode":3}}`),
			worker("http://b", `{"is_healthy":false,"breaker":"closed","worker_type":"regular","reason":"refused"}`),
			worker("http://c", `{"is_healthy":true,"breaker":"open","worker_type":"regular"}`),
			worker("http://d", `{"is_healthy":true,"breaker":"half_open","worker_type":"regular"}`),
			worker("http://e", `{"is_healthy":true,"breaker":"closed","worker_type":"regular","draining":true}`),
			worker("http://f", `{"is_healthy":true,"breaker":"closed","worker_type":"regular","removed":true}`),
			worker("http://"+strings.Repeat("g", 60), `{"is_healthy":true,"breaker":"closed","worker_type":"regular"}`),
		},
	}
	f.Workers[6].Slow = true
	var h history
	for _, ms := range []float64{0, 10, 40, 80} {
		w := &f.Workers[0]
		w.Seen = statuspage.Seen{}
		if ms > 0 {
			w.Seen = statuspage.Seen{Answers: 1, Mean: ms / 1000, Worst: ms / 1000, Blocks: 10, Matched: 5}
		}
		h.add(&f)
	}
	const want = `1 Loadstar v1, p, ready, up 1m30s
2 live, as of 12:00:00
4 Leases    granted 7, refused 1
0 Queue
0 
1 WORKER                                        STATE              LOAD  HITS  1ST BYTE  1 OF 7 USABLE
0 http://a                                      healthy               3   50%     43 ms   ▂▅█
0   decode, 3 decode, 2 reserved
4 http://b                                      unhealthy             0     -         -
4   refused
4 http://c                                      breaker open          0     -         -
3 http://d                                      breaker half_open      0     -         -
3 http://e                                      draining              0     -         -
3 http://f                                      removed               0     -         -
3 http://gggggggggggggg…gggggggggggggggggggggg  slow start            0     -         -
0 3 more in /workers
`
	if got := texts(view(&f, &h, "")); got != want {
		t.Errorf("view is\n%s\nwant\n%s", got, want)
	}
	if got := view(&f, &h, "gone")[1]; got != (line{"STALE, as of 12:00:00: gone", wrong}) {
		t.Errorf("the second line is %v, want that it's stale", got)
	}
	f.State = "shutting down"
	if got := view(&f, &h, "")[0]; got.look != wrong {
		t.Errorf("the first line is %v, want it to stand out", got)
	}
}

// TestHistory: a minute is kept, of workers that are there and of one router.
func TestHistory(t *testing.T) {
	frame := func(started int64, urls ...string) *statuspage.Frame {
		f := &statuspage.Frame{Started: started}
		for _, u := range urls {
			w := worker(u, "{}")
			w.Answers, w.Mean, w.Worst = 1, 2, 3
			f.Workers = append(f.Workers, w)
		}
		return f
	}
	var h history
	for range remembered + 5 {
		h.add(frame(1, "a", "b"))
	}
	if s := sums(h.workers["a"]); s.Answers != remembered || s.Mean != 2 || s.Worst != 3 {
		t.Errorf("sums %+v, want those of %d seconds", s, remembered)
	}
	h.add(frame(1, "b"))
	if len(h.workers) != 1 || len(h.workers["b"]) != remembered {
		t.Errorf("%d workers, want the one that is there", len(h.workers))
	}
	h.add(frame(2, "b"))
	if len(h.workers["b"]) != 1 {
		t.Errorf("%d seconds of a router that has just started, want 1", len(h.workers["b"]))
	}
}

// TestClean: nothing that a worker or a client wrote is obeyed by a terminal.
func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünd":                  "plain, ünd",
		"\x1b[2J\x1b]0;title\x07":     "·[2J·]0;title·",
		"a\nb\rc\td\x00\x7f\u009b31m": "a·b·c·d···31m",
		"\u202egnp.exe\u200b":         "·gnp.exe·",
		"\xff":                        "\ufffd",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestScreen: a terminal gets no more than it has room for, and no frame is obeyed.
func TestScreen(t *testing.T) {
	f := &statuspage.Frame{State: "ready", Version: "v\x1b[31m"}
	for i := range 50 {
		f.Workers = append(f.Workers, worker(fmt.Sprintf("http://10.0.0.%d:8000/\x1b[2J", i), `{"is_healthy":false,"breaker":"closed","worker_type":"regular","reason":"\u001b[5m"}`))
	}
	for _, tc := range []struct {
		name          string
		width, height int
		tty, colour   bool
		wantLines     int
	}{
		{"terminal", 40, 12, true, false, 11},
		{"tiny", 3, 1, true, false, 1},
		{"none", 0, 0, false, false, 104},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			s := &screen{o: Options{Out: &out, Colour: tc.colour, Size: func() (int, int, bool) { return tc.width, tc.height, tc.tty }}}
			s.show(f)
			text := out.String()
			if tc.tty {
				text = strings.TrimSuffix(strings.TrimPrefix(text, toTop), clearBelow)
				text = strings.ReplaceAll(text, clearLine+"\r\n", "\n")
			}
			if strings.ContainsAny(text, "\x1b\r") {
				t.Errorf("output %q, want nothing in it that is obeyed", text)
			}
			lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
			if len(lines) != tc.wantLines {
				t.Errorf("%d lines, want %d", len(lines), tc.wantLines)
			}
			for _, l := range lines {
				if n := len([]rune(l)); tc.tty && n > tc.width {
					t.Errorf("line %q has %d columns, want at most %d", l, n, tc.width)
				}
			}
			out.Reset()
			s.stale("gone\x1b[2J")
			if got := out.String(); strings.Contains(got, "STALE") != (tc.tty && tc.width > 5) || strings.Contains(got, "\x1b[2J") {
				t.Errorf("stale: %q", got)
			}
		})
	}
}
