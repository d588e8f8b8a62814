package rawjson

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// slowMember is a member as encoding/json finds it.
type slowMember struct{ name, value string }

// slowMembers reads an object with encoding/json.
func slowMembers(text []byte) (members []slowMember, ok bool) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if !json.Valid(text) || !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	mustToken(d)
	for d.More() {
		name := mustToken(d).(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			panic(err)
		}
		members = append(members, slowMember{name, string(value)})
	}
	return members, true
}

func mustToken(d *json.Decoder) json.Token {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	return token
}

// fastMembers reads an object with Object.
func fastMembers(t *testing.T, text []byte) (members []slowMember, ok bool) {
	t.Helper()
	o, ok := OpenObject(text)
	if !ok {
		return nil, false
	}
	end := 0
	for {
		name, value, ok := o.Next()
		if !ok {
			return members, o.Ended()
		}
		at, to := o.Span()
		if at < end || to > len(text) || !bytes.HasSuffix(text[at:to], value) {
			t.Fatalf("%q: member %q stands at %d to %d", text, name, at, to)
		}
		end = to
		var s string
		_ = json.Unmarshal([]byte(`"`+string(name)+`"`), &s) // of no use if the text is no JSON
		members = append(members, slowMember{s, string(value)})
	}
}

var objects = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":{"b":[1,"]"]},"b":"\"}","c":[{"a":[]}]}`, `{"a":1,"a":2,"b":3,"\u0061":4}`,
	"\t{ \"c\" : null ,\r\n\"a\":-1.5E+9 }\n", `{"a":1,}`, `{"a"1}`, `[{"a":1}]`, `{"x":"\\","a":"\\\"","y":"\u00e9é"}`,
	"\xef\xbb\xbf{\"b\":true}", `{"a":NaN}`, `{"a":1}}`, `{"long":"` + strings.Repeat(`\\x`, 99) + `","a":[` + strings.Repeat("[]", 3) + `]}`,
}

// FuzzObject reads members and elements as encoding/json does.
func FuzzObject(f *testing.F) {
	for _, text := range objects {
		f.Add([]byte(text))
	}
	f.Fuzz(checkObject)
}

func checkObject(t *testing.T, text []byte) {
	t.Helper()
	got, ended := fastMembers(t, text)
	want, ok := slowMembers(text)
	if ok && (!ended || !slices.Equal(got, want)) {
		t.Fatalf("%q has members %q, ended %v, want %q", text, got, ended, want)
	}
	if ended {
		checkObject(t, text[:len(text)-1]) // a cut one
	}
	var elements []json.RawMessage
	if a, ok := OpenArray(text); ok && json.Unmarshal(text, &elements) == nil {
		for i, want := range elements {
			if got, ok := a.Next(); !ok || !bytes.Equal(got, want) {
				t.Fatalf("element %d of %q is %q, want %q", i, text, got, want)
			}
		}
		if _, ok := a.Next(); ok || !a.Ended() {
			t.Fatalf("%q goes on after %d elements", text, len(elements))
		}
	}
}

// FuzzAppendEdited edits as one would edit a list of members.
func FuzzAppendEdited(f *testing.F) {
	for i, text := range objects {
		f.Add([]byte(text), uint16(i*7919))
	}
	f.Fuzz(checkEdited)
}

// TestAppendEditedAgainstSlow puts members together at random, more densely than
// a fuzzer finds them.
func TestAppendEditedAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{`"a":1`, `"a":"x"`, `"b" :[2,{"a":1}]`, `"b":null`, ` "c":{"a":1} `, `"d":0`, `"\u0062":5`, "\n\"e\"\t:\t\"\\\"\" "}
	for range 5_000 {
		var members []string
		for range r.IntN(7) {
			members = append(members, parts[r.IntN(len(parts))])
		}
		checkEdited(t, []byte(" {"+strings.Join(members, ",")+"} "), uint16(r.Uint32()))
	}
}

// checkEdited makes an edit of each of four names, chosen by bits.
func checkEdited(t *testing.T, text []byte, bits uint16) {
	t.Helper()
	var edits []Edit
	for i, name := range []string{"a", "b", "c", "new"} {
		e := Edit{Op: Op(bits >> (2 * i) & 3), Name: name, Value: []byte(`"9"`)}
		if e.Op > Delete {
			continue
		}
		if bits>>(8+i)&1 == 1 {
			e.With = func(dst, old []byte) []byte { return append(append(append(dst, '['), old...), ']') }
		}
		edits = append(edits, e)
	}
	got, ok := AppendEdited(nil, text, edits)
	members, valid := slowMembers(text)
	if valid != ok && valid {
		t.Fatalf("%q was not read", text)
	}
	if !valid {
		return
	}
	want := slowEdited(members, edits)
	if m, ok := slowMembers(got); !ok || !slices.Equal(m, want) {
		t.Fatalf("%q becomes %q, want %q", text, got, want)
	}
	if len(members) == len(want) {
		checkSpaceStays(t, text, got, members, want)
	}
}

// slowEdited is what the members become.
func slowEdited(members []slowMember, edits []Edit) []slowMember {
	var out []slowMember
	seen := map[string]bool{}
	for _, m := range members {
		n := slices.IndexFunc(edits, func(e Edit) bool { return e.Name == m.name })
		if n < 0 {
			out = append(out, m)
			continue
		}
		first := !seen[m.name]
		seen[m.name] = true
		switch e := edits[n]; {
		case e.Op == Delete:
		case e.With != nil:
			out = append(out, slowMember{m.name, "[" + m.value + "]"})
		case first:
			out = append(out, slowMember{m.name, string(e.Value)})
		}
	}
	for _, e := range edits {
		switch {
		case e.Op != Set || seen[e.Name]:
		case e.With != nil:
			out = append(out, slowMember{e.Name, "[]"})
		default:
			out = append(out, slowMember{e.Name, string(e.Value)})
		}
	}
	return out
}

// checkSpaceStays checks that got is text but for the values, if its members are
// those of text.
func checkSpaceStays(t *testing.T, text, got []byte, members, want []slowMember) {
	t.Helper()
	for i := range members {
		if members[i].name != want[i].name {
			return
		}
	}
	o, _ := OpenObject(text)
	var spliced []byte
	copied := 0
	for i := range members {
		_, value, _ := o.Next()
		_, end := o.Span()
		spliced = append(append(spliced, text[copied:end-len(value)]...), want[i].value...)
		copied = end
	}
	if spliced = append(spliced, text[copied:]...); !bytes.Equal(got, spliced) {
		t.Fatalf("%q becomes %q, want %q", text, got, spliced)
	}
}
