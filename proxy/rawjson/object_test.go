package rawjson

import (
	"slices"
	"strings"
	"testing"
)

func TestObject(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // names and values in turn
		ended      bool
	}{
		{"empty", `{}`, nil, true},
		{"empty with space", " {\n} ", nil, true},
		{"one", `{"a":1}`, []string{"a", "1"}, true},
		{"every kind", `{"a":"x","b":[1,{}],"c":{"d":[]},"e":null,"f":-1.5E+3,"g":true}`, []string{"a", `"x"`, "b", "[1,{}]", "c", `{"d":[]}`, "e", "null", "f", "-1.5E+3", "g", "true"}, true},
		{"space everywhere", "\t{ \"a\"\r\n: [ 1 , 2 ] ,\"b\" :\"\" } ", []string{"a", "[ 1 , 2 ]", "b", `""`}, true},
		{"byte order mark", "\xef\xbb\xbf{\"a\":1}", []string{"a", "1"}, true},
		{"same name twice", `{"a":1,"a":2}`, []string{"a", "1", "a", "2"}, true},
		{"name with escapes", `{"\u0061\"":1}`, []string{`\u0061\"`, "1"}, true},
		{"empty name", `{"":1}`, []string{"", "1"}, true},
		{"brackets in strings", `{"a":["]","}\"]"],"b":{"}":"{"}}`, []string{"a", `["]","}\"]"]`, "b", `{"}":"{"}`}, true},
		{"Python's constants", `{"a":NaN,"b":-Infinity}`, []string{"a", "NaN", "b", "-Infinity"}, true},
		{"comma at the end", `{"a":1,}`, []string{"a", "1"}, false},
		{"comma in front", `{,"a":1}`, nil, false},
		{"no comma", `{"a":1 "b":2}`, []string{"a", "1"}, false},
		{"no colon", `{"a" 1}`, nil, false},
		{"no value", `{"a":}`, nil, false},
		{"name without quotes", `{a:1}`, nil, false},
		{"cut in a name", `{"a`, nil, false},
		{"cut after a name", `{"a"`, nil, false},
		{"cut after a colon", `{"a":`, nil, false},
		{"cut in a string", `{"a":"x`, nil, false},
		{"cut in an array", `{"a":[1,"]"`, nil, false},
		{"cut after a value", `{"a":1`, []string{"a", "1"}, false},
		{"more after it", `{"a":1}{`, []string{"a", "1"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, ok := OpenObject([]byte(tt.text))
			if !ok {
				t.Fatal("not an object")
			}
			var got []string
			for {
				name, value, ok := o.Next()
				if !ok {
					break
				}
				got = append(got, string(name), string(value))
				start, end := o.Span()
				if member := tt.text[start:end]; !strings.HasPrefix(member, `"`+string(name)+`"`) || !strings.HasSuffix(member, string(value)) {
					t.Errorf("the span of %q holds %q", name, member)
				}
			}
			if !slices.Equal(got, tt.want) || o.Ended() != tt.ended {
				t.Errorf("got %q, ended %v, want %q, %v", got, o.Ended(), tt.want, tt.ended)
			}
		})
	}
}

func TestArray(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
		ended      bool
	}{
		{"empty", "[ ]", nil, true},
		{"every kind", ` [ "a,]" , [1,[2]],{"b":[]} ,null,1e5]`, []string{`"a,]"`, "[1,[2]]", `{"b":[]}`, "null", "1e5"}, true},
		{"comma at the end", "[1,]", []string{"1"}, false},
		{"comma in front", "[,1]", nil, false},
		{"no comma", "[1 2]", []string{"1"}, false},
		{"cut", `[1,"`, []string{"1"}, false},
		{"more after it", "[1]]", []string{"1"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, ok := OpenArray([]byte(tt.text))
			if !ok {
				t.Fatal("not an array")
			}
			var got []string
			for {
				value, ok := a.Next()
				if !ok {
					break
				}
				got = append(got, string(value))
				if !strings.HasSuffix(tt.text[:a.End()], string(value)) {
					t.Errorf("%q doesn't end at %d", value, a.End())
				}
			}
			if !slices.Equal(got, tt.want) || a.Ended() != tt.ended {
				t.Errorf("got %q, ended %v, want %q, %v", got, a.Ended(), tt.want, tt.ended)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, text := range []string{"", " ", "null", `"{}"`, "1", "x{}"} {
		if _, ok := OpenObject([]byte(text)); ok {
			t.Errorf("%q is taken for an object", text)
		}
		if _, ok := OpenArray([]byte(text)); ok {
			t.Errorf("%q is taken for an array", text)
		}
	}
	if _, ok := OpenObject([]byte("[]")); ok {
		t.Error("an array is taken for an object")
	}
	if _, ok := OpenArray([]byte("{}")); ok {
		t.Error("an object is taken for an array")
	}
}

func TestIs(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		is         bool
	}{
		{"stream", "stream", true},
		{"Stream", "stream", false},
		{"stream ", "stream", false},
		{"", "stream", false},
		{`str\u0065am`, "stream", true},
		{`\u0073\u0074\u0072\u0065\u0061\u006D`, "stream", true},
		{`str\u0065ams`, "stream", false},
		{`a\/b`, "a/b", true},
		{`\u00e9`, "é", true},
		{strings.Repeat("x", MaxName), strings.Repeat("x", MaxName), true},
		{strings.Repeat(`\u0078`, MaxName), strings.Repeat("x", MaxName), true},
		{strings.Repeat(`\u0078`, MaxName+1), strings.Repeat("x", MaxName+1), false},
	} {
		if got := Is([]byte(tt.name), tt.want); got != tt.is {
			t.Errorf("Is(%q, %q) is %v, want %v", tt.name, tt.want, got, tt.is)
		}
	}
}

func TestMembers(t *testing.T) {
	names := []string{"a", "b", "c"}
	values := [][]byte{[]byte("left over"), nil, nil}
	for _, tt := range []struct {
		name, object string
		want         []string
		ok           bool
	}{
		{"last of several", `{"a":1,"\u0061":2,"b":null,"x":[{"c":1}]}`, []string{"2", "null", ""}, true},
		{"none", `{}`, []string{"", "", ""}, true},
		{"fault behind them", `{"a":1,"b":2`, []string{"", "", ""}, false},
		{"not an object", `[]`, []string{"", "", ""}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ok := Members([]byte(tt.object), names, values)
			var got []string
			for _, v := range values {
				got = append(got, string(v))
			}
			if !slices.Equal(got, tt.want) || ok != tt.ok {
				t.Errorf("got %q, %v, want %q, %v", got, ok, tt.want, tt.ok)
			}
			if got, want := string(Member([]byte(tt.object), "a")), tt.want[0]; got != want {
				t.Errorf("Member is %q, want %q", got, want)
			}
		})
	}
}

func TestTrimSpace(t *testing.T) {
	for text, want := range map[string]string{"": "", " \n": "", "a": "a", "\t a b\r\n": "a b", "\va": "\va"} {
		if got := string(TrimSpace([]byte(text))); got != want {
			t.Errorf("TrimSpace(%q) is %q, want %q", text, got, want)
		}
	}
}
