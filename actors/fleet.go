package actors

import (
	"fmt"

	"loadstar/actors/policy"
)

// add makes members of specs, all or none. A worker that was removed and still
// has leases gets its membership back with those leases counted.
func (s *state) add(specs []Spec) ([]WorkerID, error) {
	named := make(map[string]bool, len(specs))
	for i := range specs {
		url := specs[i].URL
		if specs[i].Roles >= 1<<numRoles {
			return nil, fmt.Errorf("%s: there is no such set of roles: %d", url, specs[i].Roles)
		}
		if id, ok := s.byURL[url]; ok && s.workers[id].member || named[url] {
			return nil, fmt.Errorf("%w: %s", ErrDuplicate, url)
		}
		named[url] = true
	}
	if s.members+len(specs) > s.opts.MaxWorkers {
		return nil, fmt.Errorf("%w (%d)", ErrTooMany, s.opts.MaxWorkers)
	}
	ids := make([]WorkerID, len(specs))
	for i := range specs {
		ids[i] = s.enlist(specs[i])
	}
	s.membershipChanged()
	return ids, nil
}

// enlist enters one worker. Health and breaker begin anew, for what answers at
// this address may be another process; its live leases stay as they are.
func (s *state) enlist(spec Spec) WorkerID {
	spec = spec.completed()
	id, known := s.byURL[spec.URL]
	switch {
	case known:
	case len(s.freeIDs) > 0:
		id = s.freeIDs[len(s.freeIDs)-1]
		s.freeIDs = s.freeIDs[:len(s.freeIDs)-1]
	default:
		id = WorkerID(len(s.workers))
		s.workers = append(s.workers, worker{})
	}
	w := &s.workers[id]
	s.disturb(w) // its roles may have been others
	w.place = nowhere()
	w.spec, w.hash = spec, policy.Hash(spec.URL)
	s.disturb(w)
	w.member, w.used = true, true
	s.epochs++ // never that of another worker that had this number
	w.epoch = s.epochs
	w.health, w.breaker = health{reason: "not checked yet"}, breaker{}
	w.ramp, w.life, w.speed, w.lone, w.said = ramp{}, life{}, speed{}, 0, said{}
	s.byURL[spec.URL] = id
	s.weigh(spec.URL)
	if others := s.byBase[spec.Base]; len(others) > 0 {
		w.listed = s.workers[others[0]].listed // it is the same server
	}
	s.byBase[spec.Base] = append(s.byBase[spec.Base], id)
	s.members++
	s.relist(id)
	s.emit(Event{Kind: WorkerAdded, URL: spec.URL, Load: w.load()})
	return id
}

// setRoles changes which phases a member serves.
func (s *state) setRoles(url string, roles Roles) error {
	id, ok := s.byURL[url]
	if !ok || !s.workers[id].member {
		return fmt.Errorf("%w: %s", ErrUnknownWorker, url)
	}
	w := &s.workers[id]
	s.disturb(w)
	w.spec.Roles = roles.normal()
	w.place = nowhere()
	s.disturb(w)
	s.membershipChanged()
	s.keepFloor()
	return nil
}

// amend changes what is said of members, all or none. Who they are, their handles,
// their health and all they hold stays.
func (s *state) amend(specs []Spec) error {
	for i := range specs {
		if specs[i].Roles >= 1<<numRoles {
			return fmt.Errorf("%s: there is no such set of roles: %d", specs[i].URL, specs[i].Roles)
		}
		if id, ok := s.byURL[specs[i].URL]; !ok || !s.workers[id].member {
			return fmt.Errorf("%w: %s", ErrUnknownWorker, specs[i].URL)
		}
	}
	for i := range specs {
		id, said := s.byURL[specs[i].URL], specs[i].completed()
		w := &s.workers[id]
		s.disturb(w)
		w.spec.Roles, w.spec.Model, w.spec.Models, w.spec.Priority, w.spec.Cost = said.Roles, said.Model, said.Models, said.Priority, said.Cost
		w.spec.Labels, w.spec.Source, w.spec.Process = said.Labels, said.Source, said.Process
		s.relist(id)
		w.place = nowhere()
		s.disturb(w)
	}
	s.membershipChanged()
	s.keepFloor()
	return nil
}

// remove ends the membership of the worker with this URL, or of all ranks when
// it is the base URL of data-parallel ranks.
func (s *state) remove(url string) ([]Removed, error) {
	ids, err := s.membersAt(url)
	if err != nil {
		return nil, err
	}
	removed := make([]Removed, len(ids))
	for i, id := range ids {
		w := &s.workers[id]
		removed[i] = Removed{ID: id, URL: w.spec.URL, Base: w.spec.Base, Handle: w.spec.Handle, Leases: w.leases()}
		s.discharge(id)
	}
	s.membershipChanged()
	s.keepFloor()
	return removed, nil
}

// discharge ends one worker's membership. Its entry goes when it is idle too.
func (s *state) discharge(id WorkerID) {
	w := &s.workers[id]
	w.emptying.end()
	w.member, w.place = false, nowhere()
	s.disturb(w)
	base := w.spec.Base
	left := s.byBase[base][:0]
	for _, x := range s.byBase[base] {
		if x != id {
			left = append(left, x)
		}
	}
	if len(left) > 0 {
		s.byBase[base] = left
	} else {
		delete(s.byBase, base)
	}
	s.unlist(id)
	s.members--
	s.emit(Event{Kind: WorkerRemoved, URL: w.spec.URL, Load: w.load()})
	if w.leases() == 0 {
		s.retire(id)
	}
}

// retire forgets a worker that is removed and idle.
func (s *state) retire(id WorkerID) {
	w := &s.workers[id]
	s.emit(Event{Kind: WorkerRetired, URL: w.spec.URL})
	delete(s.byURL, w.spec.URL)
	s.workers[id] = worker{}
	s.forgetShares(id)
	s.freeIDs = append(s.freeIDs, id)
}

// membershipChanged tells the policies that keep something about members.
func (s *state) membershipChanged() {
	s.room.unsettled, s.room.regroup = true, true
	for r := range numRoles {
		s.everyPolicy(r, func(p policy.Policy) {
			if k, ok := p.(policy.MemberKeeper); ok {
				k.SetMembers(s.membersIn(r))
			}
		})
	}
}

// membersIn lists the members that serve a role.
func (s *state) membersIn(r Role) []policy.Member {
	var ms []policy.Member
	for i := range s.workers {
		if w := &s.workers[i]; w.member && w.spec.Roles.Has(r) {
			ms = append(ms, policy.Member{ID: uint32(i), URL: w.spec.URL})
		}
	}
	return ms
}

// reportHealth takes the result of a check of everything at base, and reports
// whether that is healthy now.
func (s *state) reportHealth(base, reason string) bool {
	healthy, changed := false, false
	for _, id := range s.byBase[base] {
		w := &s.workers[id]
		again := w.health.proven
		if !w.health.checked && reason != "" {
			s.emit(Event{Kind: WorkerUnready, URL: w.spec.URL, Detail: reason, Load: w.load()})
		}
		if w.health.report(&s.opts.Health, reason) {
			changed = true
			k := WorkerHealthy
			switch {
			case !w.health.healthy:
				k = WorkerUnhealthy
				w.life = life{} // what comes back is another process, or as good as one
			case again:
				s.slowDown(w)
			}
			s.disturb(w)
			s.emit(Event{Kind: k, URL: w.spec.URL, Detail: reason, Load: w.load()})
		}
		healthy = healthy || w.health.healthy
	}
	if changed {
		s.keepFloor()
	}
	return healthy
}
