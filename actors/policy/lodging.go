package policy

// lodging is the part of a policy that keeps sessions at workers. With each model a
// session has a worker of its own: those of one model serve no other.
type lodging struct {
	table  *sessions
	models uint32 // the highest number of a model that a request has asked for
}

// SetMembers forgets, over time, the sessions of workers that left.
func (l *lodging) SetMembers(members []Member) {
	l.table.residents.set(members)
}

// FinishSession forgets a session, with all models.
func (l *lodging) FinishSession(session []byte) bool {
	known := false
	for m := range l.models + 1 {
		known = l.table.remove(sessionKey(session, m)) || known
	}
	return known
}

// Sessions is the number of sessions in the table.
func (l *lodging) Sessions() int {
	return l.table.len()
}

// key stands for a session with a model, or with none, in the table.
func (l *lodging) key(session []byte, model uint32) uint64 {
	l.models = max(l.models, model)
	return sessionKey(session, model)
}

func sessionKey(session []byte, model uint32) uint64 {
	return hashOf(session) ^ uint64(model)*golden
}

// lodge has a session live at a worker from here on.
func (l *lodging) lodge(key uint64, w *Candidate, now int64) {
	l.table.put(key, l.table.residents.settle(w.ID, w.URL), now)
}
