package routekey

import "loadstar/proxy/rawjson"

// scratchKept is the capacity in bytes up to which a Scanner keeps the memory it
// resolved escapes in. Names and ids fit many times; one absurd value must not
// stay in a pool for ever.
const scratchKept = 4096

// Body is what routing needs to know of a request body, besides its key. The
// slices alias the body or the Scanner's own memory: they are valid until the
// body changes or the Scanner is used again.
type Body struct {
	// Model is the string under "model" with its escapes resolved. It is nil if
	// there is none or it isn't a string. It is not checked to be UTF-8.
	Model []byte

	// Stream says that "stream" is the literal true.
	Stream bool

	// Session is the session's id, as SessionKind describes: a string with its
	// escapes resolved, or the text of a number as it stands in the body.
	Session []byte

	// SessionKind says what Session names; NoSession means that there is none.
	SessionKind SessionKind

	// PreviousResponse is the string under "previous_response_id", or nil. Only
	// the worker that holds that response can go on from it.
	PreviousResponse []byte

	// Tokens is the JSON array that may hold the prompt as token ids, or nil. See
	// AppendTokens.
	Tokens []byte

	// Apart says that a cache salt or an adapter keeps the prompt's blocks apart from
	// those of the same tokens for the same model.
	Apart bool
}

// A Scanner reads request bodies, one after the other. The zero value is ready.
// It is meant to be pooled and is not safe for use by several goroutines.
type Scanner struct {
	// Limit is the number of prompt bytes that take part in the key; what comes
	// after them is ignored. Zero means DefaultLimit.
	Limit int

	// Identities has AppendIdentity know of bodies.
	Identities bool

	// Body and Key describe the body last given to Scan or Raw.
	Body Body
	Key  Key

	scratch    []byte // resolved escapes
	identified identified
}

// Scan reads a JSON request body into Body and Key. It reports false if body is
// not a JSON object that could be read to its end; then both are zero. A body
// that holds no prompt gets the Key that Raw would give it.
func (s *Scanner) Scan(body []byte) bool {
	s.Reset()
	var v values
	if !v.read(body) {
		return false
	}
	s.Body.Model = s.text(v.raw[fieldModel])
	s.Body.Stream = string(v.raw[fieldStream]) == "true"
	s.Body.PreviousResponse = s.text(v.raw[fieldPreviousResponse])
	s.Body.Session, s.Body.SessionKind = s.session(&v)
	s.Body.Tokens = tokensOf(&v)
	if s.Identities {
		s.identified.fill(&v)
	}
	s.Body.Apart = v.seen&apartFields != 0 && (!isEmpty(v.raw[fieldCacheSalt]) || !isEmpty(v.raw[fieldLoraName]) || !isEmpty(v.raw[fieldLoraPath]))
	if !s.Key.fill(s.namespace(&v), &v, s.limit()) {
		s.Key.Head = rawHead(body)
	}
	return true
}

// Raw gives Key a Head made of the first HeadBytes of body and leaves the rest
// of Key and Body zero. It serves bodies that are not JSON, so that equal ones
// are placed alike.
func (s *Scanner) Raw(body []byte) {
	s.Reset()
	s.Key.Head = rawHead(body)
}

// Reset makes Body and Key zero, so that a Scanner in a pool keeps no body
// alive. Scan and Raw begin with it.
func (s *Scanner) Reset() {
	s.Body = Body{}
	if s.Identities {
		s.identified = identified{}
	}
	s.Key = Key{Blocks: s.Key.Blocks[:0]}
	if cap(s.scratch) > scratchKept {
		s.scratch = nil
	}
	s.scratch = s.scratch[:0]
}

func (s *Scanner) limit() int {
	if s.Limit > 0 {
		return s.Limit
	}
	return DefaultLimit
}

// apartFields are those that keep a prompt apart from the same one without them.
const apartFields = 1<<fieldCacheSalt | 1<<fieldLoraName | 1<<fieldLoraPath

// namespace is the state that the key's chain starts from. An engine's cache
// never serves one model's, salt's or adapter's prompt to another's. A field
// that is null or empty is as good as none.
func (s *Scanner) namespace(v *values) uint64 {
	h := absorb(seedKey, s.Body.Model)
	if v.seen&apartFields == 0 {
		return h
	}
	salt := s.anyText(v.raw[fieldCacheSalt])
	adapter := s.anyText(v.raw[fieldLoraName])
	if len(adapter) == 0 {
		adapter = s.anyText(v.raw[fieldLoraPath])
	}
	if len(salt) == 0 && len(adapter) == 0 {
		return h
	}
	return absorb(absorb(h, salt), adapter)
}

// text is the string that value holds, or nil if it holds something else.
func (s *Scanner) text(value []byte) []byte {
	if len(value) == 0 || value[0] != '"' {
		return nil
	}
	inner := value[1 : len(value)-1]
	if !rawjson.HasEscape(inner) {
		return inner
	}
	start := len(s.scratch)
	s.scratch = rawjson.Unescape(s.scratch, inner)
	return s.scratch[start:len(s.scratch):len(s.scratch)]
}

// anyText is the string that value holds, nothing for an empty value, or else
// the value's own bytes.
func (s *Scanner) anyText(value []byte) []byte {
	switch {
	case isEmpty(value):
		return nil
	case value[0] == '"':
		return s.text(value)
	default:
		return value
	}
}
