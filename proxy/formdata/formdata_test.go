package formdata

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"
)

const (
	boundary = "XbX"
	formType = "multipart/form-data; boundary=" + boundary
)

// lines writes the lines of a form as HTTP wants them.
func lines(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

// field is a part of a form.
func field(disposition, value string) string {
	return lines("--XbX\nContent-Disposition: form-data; "+disposition+"\n\n") + value + "\r\n"
}

func TestField(t *testing.T) {
	const end = "--XbX--\r\n"
	model := field(`name="model"`, "m1")
	for _, tc := range []struct {
		name, kind, body string
		want             string // "-" for none
	}{
		{"alone", formType, model + end, "m1"},
		{"behind a file", formType, field(`name="file"; filename="a.wav"`, "RIFF\r\n--XbY\r\n--XbXX\r\n\x00") + model + end, "m1"},
		{"before others", formType, model + field(`name="prompt"`, "model") + end, "m1"},
		{"the last of several", formType, model + field(`name="model"`, "m2") + end, "m2"},
		{"empty", formType, field(`name="model"`, "") + end, ""},
		{"with line ends in it", formType, field(`name="model"`, "a\r\n\r\nb\r\n--") + end, "a\r\n\r\nb\r\n--"},
		{"no end of a last line", formType, model + "--XbX--", "m1"},
		{"preamble and epilogue", formType, "pre\r\n" + model + "--XbX-- \t\r\nepi\r\n--XbX\r\n", "m1"},
		{"a preamble that begins alike", formType, "--XbXy\r\nz--XbX\r\n" + model + end, "m1"},
		{"padding", formType, strings.Replace(model, "XbX", "XbX \t", 1) + end, "m1"},
		{"names of any case", "Multipart/Form-Data;Boundary=\"XbX\"; charset=utf-8", strings.Replace(model, "Content-Disposition", "content-disposition", 1) + end, "m1"},
		{"a name without quotes", formType, field(`name=model`, "m1") + end, "m1"},
		{"an extended name", formType, field(`name*=utf-8''mod%65l`, "m1") + end, "m1"},
		{"other lines", formType, strings.Replace(model, "\r\n\r\n", "\r\nContent-Type: text/plain\r\nX: y\r\n\r\n", 1) + end, "m1"},
		{"as many parts as may be", formType, strings.Repeat(field(`name="x"`, "y"), maxParts-2) + model + end, "m1"},

		{"none", formType, field(`name="x"`, "model") + end, "-"},
		{"a file of that name", formType, field(`name="model"; filename="m1"`, "m1") + end, "-"},
		{"a file without a name", formType, field(`name="model"; filename=""`, "m1") + end, "-"},
		{"nothing", formType, "", "-"},
		{"no part", formType, end, "-"},
		{"cut", formType, model, "-"},
		{"cut in the end", formType, model + "--XbX", "-"},
		{"cut in the value", formType, model[:len(model)-3], "-"},
		{"cut in a head", formType, model + model[:30], "-"},
		{"no head", formType, lines("--XbX\n\nv\n") + model + end, "-"},
		{"a broken head", formType, lines("--XbX\nnonsense\n\nv\n") + model + end, "-"},
		{"a long head", formType, strings.Replace(model, "\r\n\r\n", "\r\nX: "+strings.Repeat("y", maxHead)+"\r\n\r\n", 1) + end, "-"},
		{"two dispositions", formType, strings.Replace(model, "\r\n\r\n", "\r\nContent-Disposition: form-data; name=x\r\n\r\n", 1) + end, "-"},
		{"lines that end otherwise", formType, strings.ReplaceAll(model+end, "\r\n", "\n"), "-"},
		{"one line that ends otherwise", formType, "x\n" + model + end, "-"},
		{"a delimiter that goes on", formType, strings.Replace(model, "XbX", "XbX -", 1) + end, "-"},
		{"an end that goes on", formType, model + "--XbX--x", "-"},
		{"more parts than may be", formType, strings.Repeat(field(`name="x"`, "y"), maxParts-1) + model + end, "-"},
		{"another boundary", "multipart/form-data; boundary=XbY", model + end, "-"},
		{"no boundary", "multipart/form-data", model + end, "-"},
		{"an empty boundary", `multipart/form-data; boundary=""`, model + end, "-"},
		{"another type", "multipart/mixed; boundary=XbX", model + end, "-"},
		{"a longer type", "multipart/form-data2; boundary=XbX", model + end, "-"},
		{"no type", "", model + end, "-"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := "-"
			if from, to, ok := Field([]byte(tc.body), []byte(tc.kind), "model"); ok {
				got = tc.body[from:to]
			}
			if got != tc.want {
				t.Errorf("got %q, want %q of\n%q", got, tc.want, tc.body)
			}
		})
	}
}

// slow reads a form by the standard library. It reports false for what that doesn't
// read to its end.
func slow(body []byte, name string) (value string, found, ok bool) {
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return value, found, true
		}
		if err != nil {
			return "", false, false
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return "", false, false
		}
		kind, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
		if _, file := params["filename"]; err == nil && kind == "form-data" && params["name"] == name && !file {
			value, found = string(content), true
		}
	}
}

// FuzzField reads forms as the standard library does: all that its own writer writes,
// and of other bytes none otherwise.
func FuzzField(f *testing.F) {
	f.Add([]byte(field(`name="model"`, "m")+"--XbX--"), "m", "x")
	f.Add([]byte("pre\r\n"+field(`name="file"; filename="f"`, "\r\n--XbX\n")+field(`name="model"`, "")+"--XbX-- \r\nepi"), "\r\n--XbX", "--XbX--")
	f.Add([]byte("\n--XbX\r\n--XbX--\r\n--XbX-\r\n"), "", "")
	f.Fuzz(func(t *testing.T, body []byte, value, file string) {
		if from, to, ok := Field(body, []byte(formType), "model"); ok {
			want, found, whole := slow(body, "model")
			if !whole || !found || want != string(body[from:to]) {
				t.Fatalf("got %q of %q, want %q, found %v, whole %v", body[from:to], body, want, found, whole)
			}
		}
		if strings.Contains(value+file, boundary) {
			return
		}
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		if w.SetBoundary(boundary) != nil {
			t.Fatal("the boundary is none")
		}
		part, _ := w.CreateFormFile("file", "f")
		_, _ = part.Write([]byte(file))
		_ = w.WriteField("model", value)
		_ = w.Close()
		from, to, ok := Field(b.Bytes(), []byte(formType), "model")
		if !ok || b.String()[from:to] != value {
			t.Fatalf("got %q, %v of %q, want %q", b.String()[from:to], ok, b.String(), value)
		}
	})
}

// BenchmarkField finds a field behind a file of 25 MB.
func BenchmarkField(b *testing.B) {
	body := []byte(field(`name="file"; filename="a"`, strings.Repeat("\r\n--Xb?", 25<<20/8)) + field(`name="model"`, "m") + "--XbX--")
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, _, ok := Field(body, []byte(formType), "model"); !ok {
			b.Fatal("not found")
		}
	}
}
