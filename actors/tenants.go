package actors

// maxTenants is how many tenants with requests that wait are told apart; more
// share places with others.
const maxTenants = 256

// tenants are those who share what there is. Whoever was served least is next. A
// tenant who comes after a pause has no claim on what was served meanwhile: it
// starts as one that has just been served, so that those who come again wait no
// longer than an endless row of those who come once.
type tenants struct {
	all    []tenant
	byHash map[uint64]int
	served uint64 // the highest figure of a tenant at the moment it was served
}

type tenant struct {
	hash    uint64
	served  uint64
	waiting int
}

// find returns a tenant's place, or -1 if it has none.
func (t *tenants) find(hash uint64) int {
	if i, ok := t.byHash[hash]; ok {
		return i
	}
	return -1
}

// join notes one more request of a tenant that waits, and returns the tenant's
// place.
func (t *tenants) join(hash uint64) int {
	i := t.place(hash)
	x := &t.all[i]
	if x.waiting == 0 {
		x.served = max(x.served, t.served+1)
	}
	x.waiting++
	return i
}

func (t *tenants) leave(i int) { t.all[i].waiting-- }

func (t *tenants) serve(i int) {
	x := &t.all[i]
	t.served = max(t.served, x.served)
	x.served++
}

// place finds or makes a place for a tenant: a new one, or that of a tenant who
// has nothing waiting, or else one to be shared.
func (t *tenants) place(hash uint64) int {
	if i, ok := t.byHash[hash]; ok {
		return i
	}
	if t.byHash == nil {
		t.byHash = make(map[uint64]int)
	}
	if len(t.all) < maxTenants {
		t.all = append(t.all, tenant{hash: hash})
		t.byHash[hash] = len(t.all) - 1
		return len(t.all) - 1
	}
	idle := t.idle()
	if idle < 0 {
		return int(hash % maxTenants)
	}
	delete(t.byHash, t.all[idle].hash)
	t.all[idle] = tenant{hash: hash}
	t.byHash[hash] = idle
	return idle
}

// idle is the place of the tenant who was served least of those who have nothing
// waiting, or -1.
func (t *tenants) idle() int {
	idle := -1
	for i := range t.all {
		x := &t.all[i]
		if x.waiting == 0 && (idle < 0 || x.served < t.all[idle].served) {
			idle = i
		}
	}
	return idle
}

// waiting is how many requests wait at the place that a tenant has, or would be
// given.
func (t *tenants) waiting(hash uint64) int {
	i, ok := t.byHash[hash]
	if !ok {
		if len(t.all) < maxTenants || t.idle() >= 0 {
			return 0
		}
		i = int(hash % maxTenants)
	}
	return t.all[i].waiting
}
