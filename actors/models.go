package actors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what workers serve. The names are the workers' to tell, and a worker
// may tell anything.
const (
	MaxModelName      = 256  // bytes of a name
	MaxModelsOfWorker = 256  // names that one worker serves; those it tells beyond are left out
	maxModels         = 4096 // names that all members serve; likewise
)

// FitModelName reports whether text can be the name of a model: it is shown in logs
// and metrics.
func FitModelName(s string) bool {
	return s != "" && len(s) <= MaxModelName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// ErrNoModel says that what every member serves is known, and that none of them
// serves the model asked for.
var ErrNoModel = errors.New("no worker serves the model")

// catalog is which members serve which model. It follows from the members' specs
// and from what they have told, and is written by relist and unlist alone.
//
// A request for a model goes to the members that serve it. One for a model that
// nobody serves goes to those of whom it isn't known what they serve, and one
// without a model to all.
type catalog struct {
	byName  map[string]*model
	open    *set            // members that take any model; nil if there are none
	sets    map[string]*set // by their members
	numbers numbers         // of models
	pools   numbers         // of sets
	round   uint64          // in which sets were last looked at
}

// model is a name that members serve.
type model struct {
	number  uint32 // another name has it once nobody serves this one
	set     *set
	granted uint64 // requests for it that were granted a lease
}

// set is those who serve a model. Models that the same members serve, such as a
// base model and its adapters, share one.
type set struct {
	ids   []WorkerID // rising; never written
	pool  uint32     // what policies keep of these members is found by it
	users int        // models, and open
	round uint64     // in which it was last looked at
}

// numbers gives out small numbers from 1 on.
type numbers struct {
	free []uint32
	last uint32
}

func (n *numbers) take() uint32 {
	if k := len(n.free); k > 0 {
		x := n.free[k-1]
		n.free = n.free[:k-1]
		return x
	}
	n.last++
	return n.last
}

func (n *numbers) give(x uint32) { n.free = append(n.free, x) }

// relist has a member serve the models that it was added for and those that it has
// told, or whatever it is asked for if there are none.
func (s *state) relist(id WorkerID) {
	w := &s.workers[id]
	names := make([]string, 0, 1+len(w.spec.Models)+len(w.listed))
	known := make(map[string]bool, cap(names))
	add := func(all ...string) {
		for _, n := range all {
			if n != "" && n != AnyModel && len(n) <= MaxModelName && len(names) < MaxModelsOfWorker && !known[n] {
				known[n] = true
				names = append(names, n)
			}
		}
	}
	add(w.spec.Model)
	add(w.spec.Models...)
	add(w.listed...)
	s.register(id, names, known)
}

// register enters a member under names, of which known is the set, and takes it out
// where it was under others.
func (s *state) register(id WorkerID, names []string, known map[string]bool) {
	c, w := &s.catalog, &s.workers[id]
	served := names[:0]
	for _, n := range names {
		m := c.byName[n]
		if m == nil {
			if len(c.byName) >= maxModels {
				continue
			}
			m = &model{number: c.numbers.take()}
			c.byName[n] = m
		}
		m.set = c.with(m.set, id)
		served = append(served, n)
	}
	for _, n := range w.serves {
		if !known[n] {
			s.strike(id, n)
		}
	}
	w.serves = nil
	switch {
	case len(served) > 0:
		w.serves = served
		c.open = c.without(c.open, id)
	default:
		c.open = c.with(c.open, id)
	}
}

// unlist takes one who is no member any more out of the catalog.
func (s *state) unlist(id WorkerID) {
	w := &s.workers[id]
	for _, n := range w.serves {
		s.strike(id, n)
	}
	s.catalog.open = s.catalog.without(s.catalog.open, id)
	w.serves, w.listed = nil, nil
}

// strike takes a member from those who serve a model, which goes when it was the
// last.
func (s *state) strike(id WorkerID, name string) {
	c := &s.catalog
	m := c.byName[name]
	if m.set = c.without(m.set, id); m.set == nil {
		c.numbers.give(m.number)
		delete(c.byName, name)
	}
}

// with exchanges a user's set, which may be nil, for one with id in it.
func (c *catalog) with(old *set, id WorkerID) *set {
	var ids []WorkerID
	if old != nil {
		ids = old.ids
	}
	i, found := slices.BinarySearch(ids, id)
	if found {
		return old
	}
	fresh := c.use(slices.Insert(slices.Clone(ids), i, id))
	c.let(old)
	return fresh
}

// without exchanges a user's set, which may be nil, for one without id; nil is an
// empty one.
func (c *catalog) without(old *set, id WorkerID) *set {
	if old == nil {
		return nil
	}
	i, found := slices.BinarySearch(old.ids, id)
	if !found {
		return old
	}
	var fresh *set
	if len(old.ids) > 1 {
		fresh = c.use(slices.Delete(slices.Clone(old.ids), i, i+1))
	}
	c.let(old)
	return fresh
}

// use returns the set of these members for one more user.
func (c *catalog) use(ids []WorkerID) *set {
	key := keyOf(ids)
	x := c.sets[key]
	if x == nil {
		x = &set{ids: ids, pool: c.pools.take()}
		c.sets[key] = x
	}
	x.users++
	return x
}

// let has one user less of a set, which may be nil.
func (c *catalog) let(x *set) {
	if x == nil {
		return
	}
	if x.users--; x.users == 0 {
		c.pools.give(x.pool)
		delete(c.sets, keyOf(x.ids))
	}
}

func keyOf(ids []WorkerID) string {
	key := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	return string(key)
}

// scope is who may serve a request as far as its model goes.
type scope struct {
	model *model // nil if it names none that members serve
	set   *set   // nil for all members
}

// scopeOf reports false if nobody serves the model.
func (s *state) scopeOf(r *Request) (sc scope, ok bool) {
	c := &s.catalog
	if len(c.byName) == 0 || len(r.Model) == 0 {
		return scope{}, true
	}
	sc.model = c.byName[string(r.Model)]
	switch {
	case sc.model != nil:
		sc.set = sc.model.set
	case s.opts.AnyForUnknown:
	case c.open == nil:
		return scope{}, false
	default:
		sc.set = c.open
	}
	if sc.set != nil && len(sc.set.ids) == s.members {
		sc.set = nil
	}
	return sc, true
}

// number and pool are those by which policies know the model and the set.
func (sc *scope) number() uint32 {
	if sc.model == nil {
		return 0
	}
	return sc.model.number
}

func (sc *scope) pool() uint32 {
	if sc.set == nil {
		return 0
	}
	return sc.set.pool
}

// setsOf calls f for each set that a member is in, once, but for that of all
// members, until f reports false.
func (s *state) setsOf(w *worker, f func(*set) bool) bool {
	c := &s.catalog
	c.round++
	return s.newSetsOf(w, f)
}

// newSetsOf is setsOf without the sets that were looked at in this round.
func (s *state) newSetsOf(w *worker, f func(*set) bool) bool {
	c := &s.catalog
	look := func(x *set) bool {
		if x.round == c.round || len(x.ids) == s.members {
			return true
		}
		x.round = c.round
		return f(x)
	}
	if len(w.serves) == 0 && c.open != nil {
		return look(c.open)
	}
	for _, n := range w.serves {
		if !look(c.byName[n].set) {
			return false
		}
	}
	return true
}

// setModels notes which models the members at base say that they serve.
type setModels struct {
	base   string
	models []string
	reply  chan<- setModelsReply
}

type setModelsReply struct {
	changed bool
	err     error
}

func (m setModels) apply(s *state) {
	changed, err := s.setModels(m.base, m.models)
	m.reply <- setModelsReply{changed, err}
}

func (s *state) setModels(base string, models []string) (changed bool, err error) {
	ids := s.byBase[base]
	if len(ids) == 0 {
		return false, fmt.Errorf("%w: %s", ErrUnknownWorker, base)
	}
	for _, id := range ids {
		w := &s.workers[id]
		if slices.Equal(w.listed, models) {
			continue
		}
		before := w.serves
		w.listed = models
		s.relist(id)
		changed = changed || !slices.Equal(before, w.serves)
	}
	if changed {
		s.room.unsettled, s.room.regroup = true, true
		s.keepFloor()
	}
	return changed, nil
}

// SetModels notes which models the workers at a base URL say that they serve,
// beside those that they were added for, and reports whether that is another answer
// than before. It keeps the slice. With neither they are taken to serve whatever
// they are asked for. Requests running there go on. Errors: ErrUnknownWorker,
// ErrStopped.
func (r *Registry) SetModels(base string, models []string) (changed bool, err error) {
	reply := make(chan setModelsReply, 1)
	v, ok := ask(r, setModels{base, models, reply}, reply)
	if !ok {
		return false, ErrStopped
	}
	return v.changed, v.err
}

// ModelView is one model that members serve.
type ModelView struct {
	Name    string
	Workers int    // members that serve it
	Usable  int    // of those, members that would be given a request
	Granted uint64 // requests for it that were granted a lease, since the first member served it
}

type modelsRequest struct {
	now   int64
	reply chan<- []ModelView
}

func (m modelsRequest) apply(s *state) { m.reply <- s.modelViews(m.now) }

func (s *state) modelViews(now int64) []ModelView {
	all := make([]ModelView, 0, len(s.catalog.byName))
	for name, m := range s.catalog.byName {
		v := ModelView{Name: name, Workers: len(m.set.ids), Granted: m.granted}
		for _, id := range m.set.ids {
			if s.usable(&s.workers[id], now) {
				v.Usable++
			}
		}
		all = append(all, v)
	}
	return all
}

// Models lists the models that members serve, in no order. Errors: ErrStopped.
func (r *Registry) Models(now int64) ([]ModelView, error) {
	reply := make(chan []ModelView, 1)
	v, ok := ask(r, modelsRequest{now, reply}, reply)
	if !ok {
		return nil, ErrStopped
	}
	return v, nil
}
