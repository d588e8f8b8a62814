package proxy

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// formOf is a form with a file of some size, and a model before or behind it unless
// that is empty.
func formOf(t *testing.T, model string, size int, behind bool) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	add := func() {
		if model != "" {
			_ = w.WriteField("model", model)
		}
	}
	if !behind {
		add()
	}
	f, err := w.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write(bytes.Repeat([]byte("\r\n--\x00model=short\xff"), size/16))
	if behind {
		add()
	}
	_ = w.WriteField("prompt", "short")
	_ = w.Close()
	return b.String(), w.FormDataContentType()
}

// TestModelsOfForms: a form goes to the workers of its model, wherever that stands in
// it, and every byte of it passes but another name for the model.
func TestModelsOfForms(t *testing.T) {
	const path = "/v1/audio/transcriptions"
	a, b := newEngine(t, "a", "whisper-large-v3"), newEngine(t, "b", "m2")
	a.rest, b.rest = proxytest.JSON(200, `"a"`), proxytest.JSON(200, `"b"`)
	o := askOptions("round_robin")
	o.Aliases = map[string]string{"short": "whisper-large-v3", "a-name-that-is-longer": "m2"}
	r := startRouter(t, o, a.Worker, b.Worker)
	for _, size := range []int{0, 100, 32 << 10, 64<<10 - 700, 300_000} {
		for _, behind := range []bool{false, true} {
			for _, tc := range []struct{ model, sent, want string }{
				{"whisper-large-v3", "whisper-large-v3", `"a"`},
				{"m2", "m2", `"b"`},
				{"short", "whisper-large-v3", `"a"`},
				{"a-name-that-is-longer", "m2", `"b"`},
			} {
				t.Run(fmt.Sprintf("%s, %d bytes, behind the file: %v", tc.model, size, behind), func(t *testing.T) {
					body, kind := formOf(t, tc.model, size, behind)
					for _, chunks := range [][]int{nil, {50_000, 1}} {
						got := proxytest.Do(t, r.addr, proxytest.Request{
							Method: "POST", Target: path, Body: body, ChunkSizes: chunks, Headers: []proxytest.Header{proxytest.H("Content-Type", kind)},
						})
						want200(t, got, tc.want)
						w := a
						if tc.want == `"b"` {
							w = b
						}
						var x *proxytest.Exchange // the last one
						for _, seen := range w.Seen() {
							if seen.Path() == path {
								x = seen
							}
						}
						wanted := strings.Replace(body, "name=\"model\"\r\n\r\n"+tc.model+"\r\n", "name=\"model\"\r\n\r\n"+tc.sent+"\r\n", 1)
						wantBytes(t, "the form", x.Body(), []byte(wanted))
						wantValues(t, x, "Content-Type", kind)
						wantValues(t, x, "Content-Length", fmt.Sprint(len(wanted)))
					}
				})
			}
		}
	}
	post := func(body, kind string) *proxytest.Response {
		return proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: path, Body: body, Headers: []proxytest.Header{proxytest.H("Content-Type", kind)}})
	}
	body, kind := formOf(t, "mX", 100, true)
	got := post(body, kind)
	wantProblem(t, got, 404, "model_not_found")
	if !strings.Contains(string(got.Body), "`mX`") {
		t.Errorf("answer %s, want the model's name in it", got.Body)
	}
	for _, tc := range []struct{ name, body, kind string }{
		{"without a model", strings.Replace(body, `"model"`, `"other"`, 1), kind},
		{"cut", body[:len(body)-6], kind},
		{"another boundary", body, "multipart/form-data; boundary=x"},
		{"no form", body, "application/octet-stream"},
		{"no type", body, ""},
	} {
		if got := post(tc.body, tc.kind); got.Status != 200 {
			t.Errorf("%s: answer %d %s, want 200 of any worker", tc.name, got.Status, got.Body)
		}
	}
}
