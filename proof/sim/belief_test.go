package sim

import "slices"

// belief is what may be true of an entry.
type belief struct {
	possible  []state // one, but after a crash amid a write
	forgotten bool    // upstream has lost it: absence is possible too
	updatedAt float64 // the last that was seen, while it was present
}

// state is absence, or a value.
type state struct {
	present bool
	value   string
}

func (s state) String() string {
	if !s.present {
		return "absent"
	}
	return s.value
}

// become makes a state the only possible one: it was acknowledged.
func (b *belief) become(s state) {
	b.settleOn(s)
	b.forgotten = false
}

// settleOn makes a state the one that was seen.
func (b *belief) settleOn(s state) {
	b.possible = []state{s}
	if !s.present {
		b.updatedAt = 0
	}
}

func (b *belief) allows(s state) bool {
	return slices.Contains(b.possible, s) || (b.forgotten && !s.present)
}

// allowsRow is allows for what a listing shows.
func (b *belief) allowsRow(present bool, bytes int) bool {
	if b.forgotten && !present {
		return true
	}
	return slices.ContainsFunc(b.possible, func(s state) bool {
		return s.present == present && (!present || len(s.value) == bytes)
	})
}
