package sealed

import (
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// view is the inner engine's view with plain names. A hidden name opens once its namespace is in use: see
// [Engine.Use].
type view struct {
	upstream.View
	e *Engine
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
		v.e.mu.Lock()
		namespace, sealed := v.e.plain[id.Namespace]
		n := v.e.names[namespace]
		v.e.mu.Unlock()
		if sealed {
			key, ok := n.OpenKey(id.Key)
			if !ok {
				return
			}
			id = journal.ID{Namespace: namespace, Key: key}
		}
		changed(id, now)
	})
}
