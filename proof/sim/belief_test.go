package sim

import "slices"

// belief holds everything that may be true of an entry.
type belief struct {
	possible  []state  // more than one only after a crash amid a write
	forgotten bool     // upstream has lost it: absence is possible too
	newest    state    // what was acknowledged last
	foreign   []state  // what other hosts have written since: any of it is possible too
	theirs    []state  // all that other hosts have ever written
	history   []state  // all that it ever was, or may have been
	buried    bool     // a dead letter has come since: any of that is possible
	updatedAt float64  // the last one that an answer showed, while the entry was present
	burials   int      // how many dead letters it has had
	shown     []string // by answers
	written   int      // the place of its put among all acknowledged puts; 0 if something else may have become of it
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
	b.forgotten, b.foreign, b.buried = false, nil, false
	b.newest = s
	b.history = append(slices.Clone(b.history), s)
}

// maybeForeign makes another host's write possible.
func (b *belief) maybeForeign(s state) {
	b.written = 0
	b.foreign = append(slices.Clone(b.foreign), s)
	b.theirs = append(slices.Clone(b.theirs), s)
	b.history = append(slices.Clone(b.history), s)
}

// settleOn makes the state in an answer the only possible one.
func (b *belief) settleOn(s state) {
	b.possible = []state{s}
	if s != b.newest {
		b.written = 0
	}
	if !s.present {
		b.updatedAt = 0
	}
}

func (b *belief) allows(s state) bool {
	return slices.Contains(b.all(), s)
}

// bury takes in a dead letter.
func (b *belief) bury() {
	b.buried, b.updatedAt = true, 0
	b.burials++
}

// all is what is possible.
func (b *belief) all() []state {
	all := slices.Concat(b.possible, b.foreign)
	if b.forgotten {
		all = append(all, state{})
	}
	if b.buried {
		all = append(append(all, state{}), b.history...)
	}
	return all
}

// allowsRow is allows for a row of a listing. Of a value that is not known here, the row has the size that it has
// upstream.
func (b *belief) allowsRow(present bool, bytes int, upstream func(value string) int) bool {
	return slices.ContainsFunc(b.all(), func(s state) bool {
		return s.present == present && (!present || len(s.value) == bytes || upstream(s.value) == bytes)
	})
}
