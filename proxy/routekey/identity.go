package routekey

import (
	"bytes"

	"loadstar/proxy/rawjson"
)

// Bounds of what names a session, in bytes. Where one is exceeded there is no
// identity, as in vllm-router.
const (
	maxContext  = 16 << 10 // of an agentic_context
	maxIdentity = 256      // of what a context, a hint or headers name
)

// The sources of identities. What two of them call alike is not the same session.
const (
	byContext = "agentic_context"
	byHint    = "agent_hint"
	byHeader  = "framework_header"
	byBody    = "body_session"
)

// lead is the agent of a session whose agent isn't named.
var lead = []byte("lead")

// IdentityHeaders are what a request's headers say of its session, without space
// round it; empty where they say nothing.
type IdentityHeaders struct {
	Session []byte
	Agent   []byte // of the session, whose requests are apart from those of its others
}

// identified are the raw values of a body that an identity may come from.
type identified struct {
	args, hint, params, session, salt, adapter []byte
}

func (d *identified) fill(v *values) {
	*d = identified{
		args: v.raw[fieldArgs], hint: v.raw[fieldHint], params: v.raw[fieldSessionParams], session: v.raw[fieldSessionID],
		salt: v.raw[fieldCacheSalt], adapter: v.raw[fieldLoraName],
	}
	if isEmpty(d.adapter) {
		d.adapter = v.raw[fieldLoraPath]
	}
}

// AppendIdentity appends what vllm-router's kv_aware knows the session of the body by
// that was scanned last, with Identities on: the first that there is of
// vllm_xargs.agentic_context, agent_hint, headers, session_params.session_id and
// session_id. With a cache salt or an adapter the same session is another. It appends
// nothing if none is named, or if one that comes first can't be understood.
func (s *Scanner) AppendIdentity(dst []byte, h IdentityHeaders) []byte {
	r := identityReader{Scanner: s}
	source, id, agent := r.read(h)
	if r.odd || len(id) == 0 {
		return dst
	}
	start := len(dst)
	dst = append(append(append(dst, source...), ':'), id...)
	if len(agent) > 0 {
		dst = append(append(dst, ':'), agent...)
	}
	if source != byBody && len(dst)-start > len(source)+1+maxIdentity {
		return dst[:start]
	}
	salt, adapter := s.anyText(s.identified.salt), s.anyText(s.identified.adapter)
	if len(salt)+len(adapter) > 0 {
		dst = append(append(append(append(dst, 0), adapter...), 0), salt...)
	}
	return dst
}

// IdentitiesOf lists what AppendIdentity may append for a session of which nothing
// but its id is given.
func IdentitiesOf(session string) []string {
	alone := session + ":" + string(lead)
	return []string{byContext + ":" + session, byContext + ":" + alone, byHint + ":" + session, byHeader + ":" + alone, byBody + ":" + session}
}

// identityReader reads ids and remembers whether there was one that is none.
type identityReader struct {
	*Scanner
	odd bool
}

// read gives an id where there is one, where it is from, and the agent beside it.
func (r *identityReader) read(h IdentityHeaders) (source string, id, agent []byte) {
	d := &r.identified
	context := r.context(d.args)
	switch {
	case context != nil:
		if id, agent = r.readContext(context, h); len(id) > 0 {
			return byContext, id, agent
		}
	case isGiven(d.hint):
		return byHint, r.first(rawjson.Member(d.hint, "session_id")), nil
	case len(h.Session) > 0:
		return byHeader, h.Session, r.agentOf(h.Session, h.Agent)
	}
	r.odd = r.odd || isGiven(d.params) && !rawjson.IsObject(d.params)
	return byBody, r.first(rawjson.Member(d.params, "session_id"), d.session), nil
}

// readContext gives the id of a program, which needs no agent, or else of a task or a
// session. Headers fill in what the context leaves out.
func (r *identityReader) readContext(context []byte, h IdentityHeaders) (id, agent []byte) {
	var v [4][]byte
	if !rawjson.Members(context, []string{"program_id", "task_id", "session_id", "agent_id"}, v[:]) {
		r.odd = true
	}
	if id = r.first(v[0]); id != nil {
		return id, nil
	}
	if id = r.first(v[1], v[2]); id == nil {
		id = h.Session
	}
	if len(id) == 0 {
		return nil, nil
	}
	if agent = r.first(v[3]); agent == nil {
		agent = h.Agent
	}
	return id, r.agentOf(id, agent)
}

// context is the object under agentic_context, which may be written as a string too,
// or nil if there is none.
func (r *identityReader) context(args []byte) []byte {
	if !isGiven(args) {
		return nil
	}
	r.odd = r.odd || !rawjson.IsObject(args)
	context := rawjson.Member(args, "agentic_context")
	if !isGiven(context) {
		return nil
	}
	if len(context) <= maxContext && context[0] == '"' {
		context = rawjson.TrimSpace(r.text(context))
	}
	if len(context) > maxContext || !rawjson.IsObject(context) {
		r.odd = true
	}
	return context
}

// first is the first of raw values that is an id: a string without the space round
// it, or the text of a whole number. Those that aren't given are passed over.
func (r *identityReader) first(raw ...[]byte) []byte {
	for _, v := range raw {
		if !isGiven(v) {
			continue
		}
		id := bytes.TrimSpace(r.id(v))
		if len(id) == 0 || v[0] != '"' && bytes.ContainsAny(id, ".eE") {
			r.odd = true
			return nil
		}
		return id
	}
	return nil
}

// agentOf is the agent of a session, of which it may be named with the session in
// front.
func (r *identityReader) agentOf(session, agent []byte) []byte {
	if len(agent) == 0 {
		return lead
	}
	if rest, cut := bytes.CutPrefix(agent, session); cut && len(rest) > 0 && rest[0] == ':' {
		agent = rest[1:]
		r.odd = r.odd || len(agent) == 0
	}
	return agent
}

// isGiven reports whether there is a raw value that says something.
func isGiven(v []byte) bool { return len(v) > 0 && string(v) != "null" }
