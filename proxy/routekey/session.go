package routekey

import "loadstar/proxy/rawjson"

// SessionKind says what the session id of a body names.
type SessionKind uint8

// The kinds of session ids.
const (
	NoSession SessionKind = iota
	BySession             // session_params.session_id or session_id
	ByUser                // user or user_id
)

// AppendSession appends the text that hash policies use for a session found in
// a body, "session:<id>" or "user:<id>", and returns the extended slice. For
// NoSession it appends nothing.
func AppendSession(dst []byte, kind SessionKind, id []byte) []byte {
	switch kind {
	case BySession:
		dst = append(dst, "session:"...)
	case ByUser:
		dst = append(dst, "user:"...)
	default:
		return dst
	}
	return append(dst, id...)
}

// session finds the first id that is present and not empty, in the order
// clients of other routers rely on.
func (s *Scanner) session(v *values) ([]byte, SessionKind) {
	const fields = 1<<fieldSessionParams | 1<<fieldUser | 1<<fieldSessionID | 1<<fieldUserID
	if v.seen&fields == 0 {
		return nil, NoSession
	}
	if id := s.id(rawjson.Member(v.raw[fieldSessionParams], "session_id")); len(id) > 0 {
		return id, BySession
	}
	if id := s.id(v.raw[fieldUser]); len(id) > 0 {
		return id, ByUser
	}
	if id := s.id(v.raw[fieldSessionID]); len(id) > 0 {
		return id, BySession
	}
	if id := s.id(v.raw[fieldUserID]); len(id) > 0 {
		return id, ByUser
	}
	return nil, NoSession
}

// id is the text of a string or a number, and nil for anything else.
func (s *Scanner) id(value []byte) []byte {
	if len(value) > 0 && (value[0] == '-' || '0' <= value[0] && value[0] <= '9') {
		return value
	}
	return s.text(value)
}
