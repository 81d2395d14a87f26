package sealed

// recent holds the values that were used last: at least half of most, and no more than that. A full young half takes the
// place of the old one.
type recent[V any] struct {
	most       int
	young, old map[string]V
}

// use returns a value, and makes it if it is not there. dropped says that others had to go.
func (r *recent[V]) use(key string, make func() V) (v V, dropped bool) {
	if v, ok := r.young[key]; ok {
		return v, false
	}
	v, ok := r.old[key]
	if !ok {
		v = make()
	}
	if r.young == nil || len(r.young) >= r.most/2 { // guard 23.47
		dropped = len(r.old) > 0
		r.young, r.old = map[string]V{}, r.young
	}
	r.young[key] = v
	return v, dropped
}

// find returns a value that is there.
func (r *recent[V]) find(key string) (v V, ok bool) {
	if v, ok = r.young[key]; !ok {
		v, ok = r.old[key]
	}
	return v, ok
}
