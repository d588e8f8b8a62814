package rawjson

import (
	"bytes"
	"testing"
)

func TestAppendEdited(t *testing.T) {
	set := func(name, value string) Edit { return Edit{Op: Set, Name: name, Value: []byte(value)} }
	replace := func(name, value string) Edit { return Edit{Op: Replace, Name: name, Value: []byte(value)} }
	remove := func(name string) Edit { return Edit{Op: Delete, Name: name} }
	wrap := func(op Op, name string) Edit {
		return Edit{Op: op, Name: name, With: func(dst, old []byte) []byte {
			return append(append(append(dst, '<'), old...), '>')
		}}
	}
	for _, tt := range []struct {
		name, object string
		edits        []Edit
		want         string
	}{
		{"no edits", ` { "a" : 1 } `, nil, ` { "a" : 1 } `},
		{"set in place", `{"a": 1 , "b":2}`, []Edit{set("a", "9")}, `{"a": 9 , "b":2}`},
		{"set a new one", `{"a":1 }`, []Edit{set("b", "9")}, `{"a":1,"b":9 }`},
		{"set in an empty object", ` { } `, []Edit{set("a", "9"), set("b", "8")}, ` {"a":9,"b":8 } `},
		{"new ones in the order of the edits", `{"z":0}`, []Edit{set("b", "1"), replace("x", "7"), set("a", "2")}, `{"z":0,"b":1,"a":2}`},
		{"replace none", `{"a":1}`, []Edit{replace("b", "9")}, `{"a":1}`},
		{"replace in place", `{"a":[1,2],"b":2}`, []Edit{replace("a", "9")}, `{"a":9,"b":2}`},
		{"delete the first", `{ "a":1, "b":2}`, []Edit{remove("a")}, `{ "b":2}`},
		{"delete the first two", `{"a":1,"b":2, "c":3 }`, []Edit{remove("b"), remove("a")}, `{"c":3 }`},
		{"delete in the middle", `{"a":1 , "b":2 , "c":3}`, []Edit{remove("b")}, `{"a":1 , "c":3}`},
		{"delete two in the middle", `{"a":1,"b":2,"c":3,"d":4}`, []Edit{remove("b"), remove("c")}, `{"a":1,"d":4}`},
		{"delete the last", `{"a":1, "b":2 }`, []Edit{remove("b")}, `{"a":1 }`},
		{"delete the last two", `{"a":1,"b":2,"c":3}`, []Edit{remove("b"), remove("c")}, `{"a":1}`},
		{"delete every other one", `{"a":1,"b":2,"a":3,"b":4,"a":5}`, []Edit{remove("a")}, `{"b":2,"b":4}`},
		{"delete the only one", `{ "a":1 }`, []Edit{remove("a")}, `{  }`},
		{"delete all and set", `{"a":1,"b":2 }`, []Edit{remove("a"), remove("b"), set("c", "9")}, `{"c":9 }`},
		{"delete the first and set the next", `{"a":1 , "b" : 2}`, []Edit{remove("a"), set("b", "9")}, `{"b" : 9}`},
		{"set the first and delete the next", `{"a":1,"b":2}`, []Edit{set("a", "9"), remove("b")}, `{"a":9}`},
		{"set before and behind a deleted one", `{"a":1,"b":2,"c":3}`, []Edit{set("a", "9"), remove("b"), set("c", "8")}, `{"a":9,"c":8}`},
		{"set one of several", `{"a":1,"b":2,"a":3}`, []Edit{set("a", "9")}, `{"a":9,"b":2}`},
		{"replace one of several", `{"x":0,"a":1,"\u0061":2,"a":3}`, []Edit{replace("a", "9")}, `{"x":0,"a":9}`},
		{"change each of several", `{"a":1,"b":2,"a":3}`, []Edit{wrap(Replace, "a")}, `{"a":<1>,"b":2,"a":<3>}`},
		{"change a new one", `{"a":1}`, []Edit{wrap(Set, "b")}, `{"a":1,"b":<>}`},
		{"change none", `{"a":1}`, []Edit{wrap(Replace, "b")}, `{"a":1}`},
		{"name in escapes stays in escapes", `{"\u0061":1}`, []Edit{set("a", "9")}, `{"\u0061":9}`},
		{"names in values", `{"x":{"a":1},"y":"\"a\":1","z":["a"]}`, []Edit{remove("a"), replace("a", "9")}, `{"x":{"a":1},"y":"\"a\":1","z":["a"]}`},
		{"two edits of one name", `{"a":1}`, []Edit{set("a", "9"), remove("a")}, `{"a":9}`},
		{"two edits of a missing name", `{}`, []Edit{set("a", "9"), set("a", "8")}, `{"a":9}`},
		{"delete and set of one name", `{"a":1}`, []Edit{remove("a"), set("a", "8")}, `{}`},
		{"long numbers and odd text stay", `{"n":9007199254740993,"f":1.50e+0,"s":"\u00e9\/é","a":1}`, []Edit{set("a", "2")}, `{"n":9007199254740993,"f":1.50e+0,"s":"\u00e9\/é","a":2}`},
		{"byte order mark", "\xef\xbb\xbf {\"a\":1}", []Edit{remove("a")}, "\xef\xbb\xbf {}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := AppendEdited([]byte("before "), []byte(tt.object), tt.edits)
			if want := "before " + tt.want; string(got) != want || !ok {
				t.Errorf("got %q, %v, want %q", got, ok, want)
			}
		})
	}
}

func TestAppendEditedRefuses(t *testing.T) {
	edits := []Edit{{Op: Delete, Name: "a"}, {Name: "b", Value: []byte("1")}}
	for _, object := range []string{"", "null", "[]", `"a"`, `{"a":1`, `{"b":1,}`, `{"a":1}}`, `{"b":[1}`} {
		dst := []byte("before")
		if got, ok := AppendEdited(dst, []byte(object), edits); ok || !bytes.Equal(got, dst) {
			t.Errorf("%q gives %q, %v, want %q, false", object, got, ok, dst)
		}
	}
}

// TestAppendEditedManyOfOneName is a client that repeats a member to have a large
// value put in for each.
func TestAppendEditedManyOfOneName(t *testing.T) {
	object := []byte("{" + string(bytes.Repeat([]byte(`"a":0,`), 10_000)) + `"b":1}`)
	value := bytes.Repeat([]byte("7"), 10_000)
	got, ok := AppendEdited(nil, object, []Edit{{Name: "a", Value: value}})
	if want := `{"a":` + string(value) + `,"b":1}`; string(got) != want || !ok {
		t.Errorf("%d bytes, %v, want %d", len(got), ok, len(want))
	}
}

func TestAppendEditedTooManyEdits(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("65 edits don't panic")
		}
	}()
	AppendEdited(nil, []byte("{}"), make([]Edit, 65))
}
