package trace

import (
	"regexp"
	"strings"
	"testing"
)

const (
	aTrace = "0af7651916cd43dd8448eb211c80319c"
	aSpan  = "b7ad6b7169203331"
)

func TestParseParent(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		want string // as it is written again; empty if it is invalid
	}{
		{"sampled", "00-" + aTrace + "-" + aSpan + "-01", "00-" + aTrace + "-" + aSpan + "-01"},
		{"not sampled", "00-" + aTrace + "-" + aSpan + "-00", "00-" + aTrace + "-" + aSpan + "-00"},
		{"random id", "00-" + aTrace + "-" + aSpan + "-03", "00-" + aTrace + "-" + aSpan + "-03"},
		{"unknown flags", "00-" + aTrace + "-" + aSpan + "-ff", "00-" + aTrace + "-" + aSpan + "-03"},
		{"later version", "cc-" + aTrace + "-" + aSpan + "-01", "00-" + aTrace + "-" + aSpan + "-01"},
		{"later version with more", "cc-" + aTrace + "-" + aSpan + "-01-what", "00-" + aTrace + "-" + aSpan + "-01"},
		{"later version with more and no dash", "cc-" + aTrace + "-" + aSpan + "-01.what", ""},
		{"version 00 with more", "00-" + aTrace + "-" + aSpan + "-01-what", ""},
		{"version ff", "ff-" + aTrace + "-" + aSpan + "-01", ""},
		{"empty", "", ""},
		{"short", "00-" + aTrace + "-" + aSpan + "-0", ""},
		{"capitals", "00-" + strings.ToUpper(aTrace) + "-" + aSpan + "-01", ""},
		{"no hex", "00-" + strings.Replace(aTrace, "a", "g", 1) + "-" + aSpan + "-01", ""},
		{"zero trace", "00-" + strings.Repeat("0", 32) + "-" + aSpan + "-01", ""},
		{"zero span", "00-" + aTrace + "-" + strings.Repeat("0", 16) + "-01", ""},
		{"other separators", "00_" + aTrace + "_" + aSpan + "_01", ""},
		{"a thousand bytes", "00-" + strings.Repeat("a", 1000), ""},
		{"binary", "00-\x00\xff" + aTrace[2:] + "-" + aSpan + "-01", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, ok := ParseParent([]byte(tc.in))
			got := ""
			if ok {
				got = string(p.AppendParent(nil))
			}
			if got != tc.want || !ok && p != (Parent{}) {
				t.Errorf("%q, %+v, want %q", got, p, tc.want)
			}
		})
	}
}

// form is the standard's grammar, but for ids of zero.
var form = regexp.MustCompile(`^(00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}|(?:[0-9a-e][0-9a-f]|f[0-9a-e])-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?s:-.*)?)$`)

func FuzzParseParent(f *testing.F) {
	f.Add("00-" + aTrace + "-" + aSpan + "-01")
	f.Add("cc-" + aTrace + "-" + aSpan + "-01-x")
	f.Add("ff-" + aTrace + "-" + aSpan + "-01")
	f.Add("00-" + strings.Repeat("0", 32) + "-" + aSpan + "-01")
	f.Fuzz(func(t *testing.T, in string) {
		m := form.FindStringSubmatch(in)
		want := m != nil && strings.Trim(m[2]+m[4], "0") != "" && strings.Trim(m[3]+m[5], "0") != "" && (in[:2] != "00" || len(in) == parentWidth)
		p, got := ParseParent([]byte(in))
		if got != want {
			t.Fatalf("%q: %v, want %v", in, got, want)
		}
		if !got {
			return
		}
		again, ok := ParseParent(p.AppendParent(nil))
		if !ok || again != p {
			t.Errorf("%q is read again as %+v, %v, want %+v", in, again, ok, p)
		}
	})
}

func TestPutSpan(t *testing.T) {
	p, _ := ParseParent([]byte("00-" + aTrace + "-" + aSpan + "-01"))
	line := p.AppendParent(nil)
	PutSpan(line, [8]byte{1, 2, 3, 4, 5, 6, 7, 0xff})
	if got, want := string(line), "00-"+aTrace+"-01020304050607ff-01"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDecide(t *testing.T) {
	parent := func(flags byte) Parent {
		return Parent{Trace: [16]byte{15: 1}, Span: [8]byte{7: 1}, Flags: flags}
	}
	for _, tc := range []struct {
		name   string
		share  float64
		parent Parent
		want   bool
	}{
		{"a root, all", 1, Parent{}, true},
		{"a root, none", 0, Parent{}, false},
		{"parent sampled, none", 0, parent(1), true},
		{"parent not sampled, all", 1, parent(0), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := &Tracer{ratio: ratioOf(tc.share)}
			p, got := tr.Decide(tc.parent)
			if got != tc.want || !p.Valid() || tc.parent.Valid() && p != tc.parent || (p.Flags&sampled != 0) != got {
				t.Errorf("%v with %+v, want %v", got, p, tc.want)
			}
		})
	}
}

// The share that is sampled is the ratio, within what chance allows for.
func TestRatio(t *testing.T) {
	const n, share = 100_000, 0.1
	r, got := ratioOf(share), 0
	for range n {
		if p := newTrace(); r.samples(p.Trace) {
			got++
		}
	}
	if got < n*share*0.9 || got > n*share*1.1 { // ten standard deviations
		t.Errorf("%d of %d are sampled, want about %v", got, n, n*share)
	}
}
