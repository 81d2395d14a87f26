package sealed

import (
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// view is the inner engine's view with plain names. A hidden name opens once its namespace is in use: see
// [Engine.Use].
type view struct {
	upstream.View
	e *Engine
}

// CaughtUp implements [upstream.View]. A namespace that is no longer in use is not followed, so no answer from before
// holds: with the next one, the namespace is in use again.
func (v view) CaughtUp() (asOf, since time.Time, ok bool) {
	asOf, since, ok = v.View.CaughtUp()
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	if v.e.forgot.After(since) { // guard 23.48
		since = v.e.forgot
	}
	return asOf, since, ok
}

// Entry implements [upstream.View].
func (v view) Entry(id journal.ID) (row journal.Row, present, known bool) {
	n, hidden, err := v.e.hide(id)
	if err != nil {
		return journal.Row{}, false, true
	}
	row, present, known = v.View.Entry(hidden)
	if n != nil && row.Key != "" {
		row.Key, row.Rough = id.Key, true
	}
	return row, present, known
}

// Newest implements [upstream.View].
func (v view) Newest(namespace string, most int) (rows []journal.Row, total int, known bool) {
	n := v.e.of(namespace)
	if n == nil {
		return v.View.Newest(namespace, most)
	}
	hidden, total, known := v.View.Newest(n.Name(), most)
	rows = opened(n, hidden)
	return rows, total - (len(hidden) - len(rows)), known
}

// NotBefore implements [upstream.View].
func (v view) NotBefore(id journal.ID) float64 {
	_, hidden, err := v.e.hide(id)
	if err != nil {
		return 0
	}
	return v.View.NotBefore(hidden)
}

// Follow implements [upstream.View].
func (v view) Follow(changed func(id journal.ID, now upstream.Version)) {
	v.View.Follow(func(id journal.ID, now upstream.Version) {
		if id, ok := v.e.unhidden(id); ok {
			changed(id, now)
		}
	})
}
