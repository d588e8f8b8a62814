package keyring

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	for _, tc := range []struct {
		name, text  string
		tenant, key string
		want        string // in the error; empty for none
	}{
		{"a key", "sk-1_2.3~/+==", "", "sk-1_2.3~/+==", ""},
		{"blanks around", "  sk-1 \r\n", "", "sk-1", ""},
		{"named", "team-a:sk-1", "team-a", "sk-1", ""},
		{"named, with blanks", "Team_A.1 : sk-1", "Team_A.1", "sk-1", ""},
		{"the first colon ends the name", "a:b:c", "a", "b:c", ""},
		{"longest name", strings.Repeat("n", 64) + ":k", strings.Repeat("n", 64), "k", ""},
		{"longest key", strings.Repeat("k", 1024), "", strings.Repeat("k", 1024), ""},
		{"empty", "", "", "", "there is no key"},
		{"a name alone", "secret:", "", "", "there is no key"},
		{"an empty name", ":secret", "", "", "is no name"},
		{"a name with a blank", "secret b:k", "", "", "is no name"},
		{"a long name", strings.Repeat("n", 65) + ":k", "", "", "is no name"},
		{"a key with a blank", "secret b", "", "", "holds a space"},
		{"a key with a control character", "secret\x00b", "", "", "holds a space"},
		{"a key beyond ASCII", "secretä", "", "", "holds a space"},
		{"a long key", strings.Repeat("k", 1025), "", "", "longer than 1024 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseKey([]byte(tc.text))
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("error %v, want one with %q and without the text", err, tc.want)
				}
				return
			}
			want := KeyOf(tc.key)
			want.Tenant = tc.tenant
			if err != nil || got != want {
				t.Errorf("%+v, %v, want tenant %q and the digest of %q", got, err, tc.tenant, tc.key)
			}
		})
	}
}

func TestParseFile(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "key-%d\n", i)
		}
		return b.String()
	}
	for _, tc := range []struct {
		name, text string
		keys       int
		want       string // is the error; empty for none
	}{
		{"keys, names, comments", "# ours\n\na:one\r\n  # theirs\ntwo\na:three", 3, ""},
		{"as many as are taken", many(MaxKeys), MaxKeys, ""},
		{"one more", many(MaxKeys + 1), 0, "line 4097: it holds more than 4096 keys"},
		{"nothing", "", 0, "it holds no key"},
		{"comments only", "# a\n\n", 0, "it holds no key"},
		{"a bad line", "one\n\nse cret\n", 0, "line 3: the key holds a space or another character that a bearer key cannot have"},
		{"a key twice", "one\n# x\nb:one\n", 0, "line 3: the key is that of line 1"},
		{"huge", strings.Repeat("#", MaxFile+1), 0, "it is larger than 4194304 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			keys, err := ParseFile([]byte(tc.text))
			if len(keys) != tc.keys || err != nil && err.Error() != tc.want || err == nil && tc.want != "" {
				t.Errorf("%d keys, %v, want %d, %q", len(keys), err, tc.keys, tc.want)
			}
		})
	}
}

func TestSet(t *testing.T) {
	if _, err := NewSet(make([]Key, MaxKeys+1)...); err != nil {
		t.Errorf("one key %d times: %v, want it taken once", MaxKeys+1, err)
	}
	var many []Key
	for i := range MaxKeys + 1 {
		many = append(many, newKey(fmt.Sprint(i), fmt.Append(nil, "key-", i)))
	}
	if _, err := NewSet(many...); err == nil {
		t.Errorf("%d keys are taken, want an error", len(many))
	}
	s, err := NewSet(many[:MaxKeys]...)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, MaxKeys / 2, MaxKeys - 1} {
		if tenant, ok := s.Find(fmt.Append(nil, "key-", i)); !ok || tenant != fmt.Sprint(i) {
			t.Errorf("key %d is that of %q, %v", i, tenant, ok)
		}
	}
	for _, k := range []string{"", "key-", "key-4096", "key-1 ", "KEY-1"} {
		if tenant, ok := s.Find([]byte(k)); ok {
			t.Errorf("%q is that of %q, want it unknown", k, tenant)
		}
	}
	// Digests that differ in one bit of one word are not taken for each other.
	for word := range 4 {
		for _, bit := range []uint64{1, 1 << 31, 1 << 63} {
			d := digestOf([]byte("x"))
			d[word] ^= bit
			if tenant, ok := (&Set{[]digest{d}, []string{"near"}, 0}).Find([]byte("x")); ok {
				t.Errorf("a digest that differs in word %d by %x is that of %q", word, bit, tenant)
			}
		}
	}
}

// A reader sees the set of the moment, and one that is replaced while readers run
// is seen by each, with no request measured by a set older than the last one
// replaced before it began.
func TestRing(t *testing.T) {
	set := func(key string) *Set {
		s, err := NewSet(KeyOf(key))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	sets := make([]*Set, 100)
	order := make(map[*Set]int)
	for i := range sets {
		sets[i] = set(fmt.Sprint(i))
		order[sets[i]] = i
	}
	r := NewRing(sets[0])
	begun, done := make(chan struct{}), make(chan error, 4)
	for range cap(done) {
		go func() {
			var v Reader
			last := order[v.At(r)]
			begun <- struct{}{}
			for last < len(sets)-1 {
				now := order[v.At(r)]
				if now < last {
					done <- fmt.Errorf("set %d after set %d", now, last)
					return
				}
				last = now
			}
			done <- nil
		}()
	}
	for range cap(done) {
		<-begun
	}
	var mine Reader
	for _, s := range sets[1:] {
		r.Replace(s)
		if got := mine.At(r); got != s {
			t.Errorf("set %d just after set %d was put in", order[got], order[s])
		}
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	s, err := NewSet(KeyOf("a"), KeyOf("b"))
	if err != nil {
		t.Fatal(err)
	}
	r, key := NewRing(s), []byte("b")
	var v Reader
	if n := testing.AllocsPerRun(100, func() { v.At(r).Find(key) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// FuzzFile: what is read from a file is found, and nothing else is.
func FuzzFile(f *testing.F) {
	f.Add("a:one\n# c\ntwo\n", "one")
	f.Add("a:b:c\r\n", "b:c")
	f.Add("x\nx\n", "x")
	f.Fuzz(func(t *testing.T, text, query string) {
		keys, err := ParseFile([]byte(text))
		if err != nil {
			return
		}
		s, err := NewSet(keys...)
		if err != nil {
			t.Fatal(err)
		}
		known := make(map[string]string)
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			name, key, named := strings.Cut(line, ":")
			if !named {
				name, key = "", line
			}
			known[strings.TrimSpace(key)] = strings.TrimSpace(name)
		}
		if s.Len() != len(known) {
			t.Errorf("%d keys, want %d", s.Len(), len(known))
		}
		for key, want := range known {
			if tenant, ok := s.Find([]byte(key)); !ok || tenant != want {
				t.Errorf("Find(%q) = %q, %v, want %q", key, tenant, ok, want)
			}
		}
		if _, isKey := known[query]; !isKey {
			if tenant, ok := s.Find([]byte(query)); ok {
				t.Errorf("Find(%q) = %q, want it unknown", query, tenant)
			}
		}
	})
}
