package sim

import "slices"

// belief holds everything that may be true of an entry.
type belief struct {
	possible  []state // more than one only after a crash amid a write
	forgotten bool    // upstream has lost it: absence is possible too
	updatedAt float64 // the last one that an answer showed, while the entry was present
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

// become makes an acknowledged state the only possible one.
func (b *belief) become(s state) {
	b.settleOn(s)
	b.forgotten = false
}

// settleOn makes the state in an answer the only possible one.
func (b *belief) settleOn(s state) {
	b.possible = []state{s}
	if !s.present {
		b.updatedAt = 0
	}
}

func (b *belief) allows(s state) bool {
	return slices.Contains(b.possible, s) || (b.forgotten && !s.present)
}

// allowsRow is allows for a row of a listing.
func (b *belief) allowsRow(present bool, bytes int) bool {
	if b.forgotten && !present {
		return true
	}
	return slices.ContainsFunc(b.possible, func(s state) bool {
		return s.present == present && (!present || len(s.value) == bytes)
	})
}
