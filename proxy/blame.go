package proxy

import "loadstar/actors"

// suspect is a worker at which a request has failed and which is not charged with
// it yet: if the request fails at another worker too it is to blame itself, and a
// fleet must not be shut out for one request.
type suspect struct {
	lease actors.Lease
	cause actors.Cause
	held  bool
}

// blames reports whether a lease's end may be the request's fault as well as the
// worker's.
func blames(c actors.Cause) bool {
	switch c {
	case actors.ServerError, actors.UpstreamReset, actors.UpstreamInvalid, actors.UpstreamTruncated:
		return true
	}
	return false
}

// release ends an attempt's lease. again says that another attempt follows.
func (x *exchange) release(lease *actors.Lease, cause actors.Cause, again bool) {
	if x.record.trace != nil {
		x.record.endAttempt(cause)
	}
	switch now := x.p.now(); {
	case blames(cause) && x.pardons(lease):
		lease.ReleaseUnjudged(cause, now)
	case blames(cause) && again && !x.suspect.held:
		lease.ReleaseUnjudged(cause, now)
		x.suspect = suspect{*lease, cause, true}
	default:
		lease.Release(cause, now)
		x.charge()
	}
}

// pardons reports whether the request has failed at another worker before, which
// then is not charged either.
func (x *exchange) pardons(lease *actors.Lease) bool {
	if !x.suspect.held || x.suspect.lease.Worker == lease.Worker {
		return false
	}
	x.suspect = suspect{}
	return true
}

// charge has the suspect bear what happened there, if there is one.
func (x *exchange) charge() {
	if s := &x.suspect; s.held {
		s.lease.Judge(s.cause, x.p.now())
		*s = suspect{}
	}
}
