package routekey

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unsafe"
)

// checkScan compares what Scan makes of body with the slow versions and, if
// encoding/json accepts body, with that.
func checkScan(t *testing.T, s *Scanner, body []byte) {
	t.Helper()
	before := string(body)
	ok := s.Scan(body)
	if string(body) != before {
		t.Fatalf("%q: Scan changed the body", before)
	}
	m, want := slowValues(body)
	if ok != want {
		t.Fatalf("%q: Scan says %v, want %v", body, ok, want)
	}
	if !ok {
		if json.Valid(body) && bytes.TrimLeft(body, " \t\r\n")[0] == '{' {
			t.Fatalf("%q: a valid object was not read", body)
		}
		checkZero(t, s)
		return
	}
	checkValues(t, body, m)
	stream, size := slowStream(m)
	if s.Key.Bytes != size {
		t.Fatalf("%q: Bytes is %d, want %d", body, s.Key.Bytes, size)
	}
	var v values
	v.read(body)
	blocks, head := slowKey(s.namespace(&v), stream, s.limit())
	if size == 0 {
		head = slowAbsorb(seedRaw, body[:min(len(body), 1024)])
	}
	if !slices.Equal(s.Key.Blocks, blocks) {
		t.Fatalf("%q: Blocks is %x, want %x", body, s.Key.Blocks, blocks)
	}
	if s.Key.Head != head {
		t.Fatalf("%q: Head is %x, want %x", body, s.Key.Head, head)
	}
	s.Scan(body) // asking for the namespace has used the scratch
	checkJSON(t, s, body)
}

func checkZero(t *testing.T, s *Scanner) {
	t.Helper()
	b := s.Body
	if b.Model != nil || b.Stream || b.Session != nil || b.SessionKind != NoSession || b.PreviousResponse != nil || b.Tokens != nil || b.Apart {
		t.Fatalf("Body is %+v, want zero", b)
	}
	if len(s.Key.Blocks) != 0 || s.Key.Head != 0 || s.Key.Bytes != 0 {
		t.Fatalf("Key is %+v, want zero", s.Key)
	}
}

// checkValues compares each raw value with the slow reader's, place included.
func checkValues(t *testing.T, body []byte, m map[string]string) {
	t.Helper()
	var v values
	v.read(body)
	for f, name := range fieldNames {
		raw, want := v.raw[f], m[name]
		if string(raw) != want {
			t.Fatalf("%q: %s is %q, want %q", body, name, raw, want)
		}
		if (v.seen&(1<<f) != 0) != (raw != nil) {
			t.Fatalf("%q: %s is marked wrongly as seen or not", body, name)
		}
		if len(raw) > 0 {
			at := uintptr(unsafe.Pointer(&raw[0])) - uintptr(unsafe.Pointer(&body[0]))
			if at >= uintptr(len(body)) {
				t.Fatalf("%q: %s is not a part of the body", body, name)
			}
		}
	}
}

var fieldNames = map[field]string{
	fieldModel: "model", fieldStream: "stream", fieldPreviousResponse: "previous_response_id",
	fieldSessionParams: "session_params", fieldUser: "user", fieldSessionID: "session_id",
	fieldUserID: "user_id", fieldCacheSalt: "cache_salt", fieldLoraName: "lora_name",
	fieldLoraPath: "lora_path", fieldArgs: "vllm_xargs", fieldHint: "agent_hint", fieldTools: "tools", fieldFunctions: "functions",
	fieldInstructions: "instructions", fieldSystem: "system", fieldMessages: "messages",
	fieldPrompt: "prompt", fieldText: "text", fieldInput: "input", fieldInputIDs: "input_ids",
	fieldTokenIDs: "token_ids", fieldQuery: "query", fieldDocuments: "documents",
}

// checkJSON compares Body with what encoding/json reads, if it reads body.
func checkJSON(t *testing.T, s *Scanner, body []byte) {
	t.Helper()
	var m map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil || m == nil {
		return
	}
	if got, want := asJSON(s.Body.Model), jsonString(m["model"]); got != want {
		t.Fatalf("%q: Model is %q, want %q", body, got, want)
	}
	if got, want := asJSON(s.Body.PreviousResponse), jsonString(m["previous_response_id"]); got != want {
		t.Fatalf("%q: PreviousResponse is %q, want %q", body, got, want)
	}
	var stream any
	_ = json.Unmarshal(m["stream"], &stream)
	if got, want := s.Body.Stream, stream == true; got != want {
		t.Fatalf("%q: Stream is %v, want %v", body, got, want)
	}
	session, kind := jsonSession(m)
	if got := asJSON(s.Body.Session); got != session || s.Body.SessionKind != kind {
		t.Fatalf("%q: Session is %q (%d), want %q (%d)", body, got, s.Body.SessionKind, session, kind)
	}
}

func jsonSession(m map[string]json.RawMessage) (string, SessionKind) {
	var params map[string]json.RawMessage
	_ = json.Unmarshal(m["session_params"], &params)
	for _, c := range []struct {
		raw  json.RawMessage
		kind SessionKind
	}{
		{params["session_id"], BySession},
		{m["user"], ByUser},
		{m["session_id"], BySession},
		{m["user_id"], ByUser},
	} {
		var n json.Number
		if s := jsonString(c.raw); s != "" {
			return s, c.kind
		}
		if json.Unmarshal(c.raw, &n) == nil && n != "" && c.raw[0] != '"' {
			return string(n), c.kind
		}
	}
	return "", NoSession
}

// jsonString is the string that raw is, or "".
func jsonString(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// asJSON is b as encoding/json would have it: bytes that are not UTF-8 become
// U+FFFD, one each.
func asJSON(b []byte) string { return string([]rune(string(b))) }
