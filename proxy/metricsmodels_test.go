package proxy

import "testing"

func TestModelLabel(t *testing.T) {
	for name, want := range map[string]string{
		"org/model":           `{model="org/model"}`,
		`a"b\c`:               `{model="a\"b\\c"}`,
		"h\u00e9\u202e\u00a0": "{model=\"h\u00e9\u202e\u00a0\"}",
		"two\nlines":          `{model="two\nlines"}`,
	} {
		if got := modelLabel(name); got != want {
			t.Errorf("label of %q is %s, want %s", name, got, want)
		}
	}
}
