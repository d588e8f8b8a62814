package scale

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"loadstar/bench/bare"
	"loadstar/bench/compare"
)

// The tests' binary stands in for the bench program.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 2 && os.Args[1] == Command && os.Args[2] == WorkersCommand:
		err = ServeWorkers(os.Args[3:], os.Stdin, os.Stdout)
	case len(os.Args) > 2 && os.Args[1] == compare.BareCommand:
		var ln net.Listener
		if ln, err = net.Listen("tcp", os.Args[2]); err == nil {
			err = bare.Serve(ln, os.Args[3:])
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func self(t *testing.T) string {
	t.Helper()
	file, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A whole run, as short as it can be, has a value of everything, and all streams are
// answered right and counted.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs routers for seconds")
	}
	binary, err := compare.BuildLoadstar(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Settings{
		Rounds: 1, Seconds: .1, Idle: .2, Fleets: []int{2, 5}, Fleet: 8, Streams: 40, Scrapes: 3, Prompts: 20,
		Programs: compare.Programs{Loadstar: binary, Bench: self(t)},
	}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	const streams = "40 streams open at once, an event a second each"
	tests := []struct {
		part, name string
		least      float64 // or exactly, if it is 0
	}{
		{"CPU per request, 200 B, cache_aware", "2 workers", .1},
		{"CPU per request, 20 kB, least_work", "5 workers", .1},
		{"CPU per request, 20 kB, round_robin", "5 workers, as a multiple of 2", .01},
		{"CPU per request, 200 B, bare", "5 workers", .1},
		{"Memory", "8 workers", 1000},
		{"/metrics at 8 workers that have served requests", "size", 5},
		{"/metrics at 8 workers that have served requests", "time, p50", .001},
		{"/workers at 8 workers that have served requests", "size", 1},
		{streams, "memory of each", -1e6},
		{streams, "opened in", .0001},
		{streams, "streams not counted in a load meanwhile", 0},
		{streams, "streams not answered right to their end", 0},
		{streams, "load that is left", 0},
	}
	for _, tt := range tests {
		t.Run(tt.part+", "+tt.name, func(t *testing.T) {
			i := slices.IndexFunc(r.Figures, func(f *Figure) bool { return f.Part == tt.part && f.Name == tt.name })
			if i < 0 || len(r.Figures[i].Values) != 1 {
				t.Fatal("it has no value, want one")
			}
			if v := r.Figures[i].Values[0]; v < tt.least || tt.least == 0 && v != 0 {
				t.Errorf("it is %v, want %v", v, tt.least)
			}
		})
	}
	if len(r.Notes) > 0 || r.Version == "" || r.Interrupted {
		t.Errorf("notes %q, version %q, interrupted %v, want no notes, a version and false", r.Notes, r.Version, r.Interrupted)
	}
}

func TestSettingsErrors(t *testing.T) {
	good := Settings{Rounds: 1, Seconds: 1, Idle: 1, Fleets: []int{4}, Fleet: 10, Streams: 1, Scrapes: 1, Prompts: 1}
	tests := []struct {
		name  string
		spoil func(*Settings)
		want  string
	}{
		{"good", func(*Settings) {}, ""},
		{"rounds", func(s *Settings) { s.Rounds = 0 }, "rounds, scrapes, streams and prompts: give at least 1 of each"},
		{"seconds", func(s *Settings) { s.Idle = .01 }, "1 and 0.01 seconds: give at least 0.1, CPU time is counted in steps of 10 ms"},
		{"no fleet", func(s *Settings) { s.Fleets = nil }, "no fleet is given: name numbers of workers"},
		{"fleet", func(s *Settings) { s.Fleets = []int{4, 0} }, "0 workers: give 1 to 4096"},
		{"workers", func(s *Settings) { s.Fleet = 5000 }, "5000 workers: give 1 to 4096"},
		{"part", func(s *Settings) { s.Parts = []string{"x"} }, `part "x": give one of [requests idle pages streams]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good
			tt.spoil(&s)
			got := ""
			if err := s.check(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("the error is %q, want %q", got, tt.want)
			}
		})
	}
}

// An answer is right only if it is whole and nobody else's.
func TestRead(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	event := func(name string, n int) string { return chunk(fmt.Sprintf(eventFormat, name, n)) }
	const last = "0\r\n\r\n"
	tests := []struct{ name, answer, want string }{
		{"right", head + event("7", 0) + event("7", 1) + chunk(doneLine) + last, ""},
		{"right, without events", head + chunk(doneLine) + last, ""},
		{"another's event", head + event("7", 0) + event("8", 1) + chunk(doneLine) + last, "is event 1 of stream 7"},
		{"an event is missing", head + event("7", 0) + event("7", 2) + chunk(doneLine) + last, "is event 1 of stream 7"},
		{"an event comes twice", head + event("7", 0) + event("7", 0) + chunk(doneLine) + last, "is event 1 of stream 7"},
		{"no mark", head + event("7", 0) + last, "stream 7 ended without its mark, after 1 events"},
		{"more behind the mark", head + chunk(doneLine) + event("7", 0) + last, "follows the end of stream 7"},
		{"cut", head + event("7", 0) + chunk(doneLine), "unexpected EOF"},
		{"refused", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfull", "status 503: full"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = io.WriteString(theirs, tt.answer)
				_ = theirs.Close()
			}()
			defer ours.Close()
			c := &crowd{begun: make(chan struct{}, 1)}
			err := c.read(ours, "7")
			if got := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("the error is %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestOpenable(t *testing.T) {
	tests := []struct{ wanted, files, want int }{
		{10_000, 1 << 20, 10_000}, {10_000, 20_256, 10_000}, {10_000, 20_000, 9872}, {5, 100, 1},
	}
	for _, tt := range tests {
		if got := openable(tt.wanted, tt.files); got != tt.want {
			t.Errorf("of %d streams %d can be open with %d files, want %d", tt.wanted, got, tt.files, tt.want)
		}
	}
}

// Figures of a part stand together, in the order in which they came.
func TestAdd(t *testing.T) {
	r := &Result{}
	for round := range 2 {
		for _, part := range []string{"a", "b"} {
			r.add(part, "x", "", nil, float64(round))
			r.add(part, "y", "", bound(1), 5)
		}
	}
	r.add("a", "z", "", nil, 7)
	got := ""
	for _, f := range r.Figures {
		got += fmt.Sprint(f.Part, f.Name, f.Values, " ")
	}
	if want := "ax[0 1] ay[5 5] az[7] bx[0 1] by[5 5] "; got != want {
		t.Errorf("the figures are %s, want %s", got, want)
	}
}
