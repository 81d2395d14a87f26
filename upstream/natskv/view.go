package natskv

import (
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// view returns the results of [Engine.CaughtUp].
func (w *watch) view() (asOf, since time.Time, ok bool) {
	asOf, since, ok = w.progress.isSound(time.Now())
	return asOf, since, ok && w.e.link.jetStream() != nil && w.keeper.refuses() == nil
}

// CaughtUp implements [upstream.View]. ok says that the last successful comparison is at most 3 s old,
// there is a connection, and the bucket is not refused.
func (e *Engine) CaughtUp() (asOf, since time.Time, ok bool) { return e.watch.view() }

// Entry implements [upstream.View].
func (e *Engine) Entry(id journal.ID) (row journal.Row, present, known bool) {
	v, known := e.index.get(id)
	if v.Revision == 0 {
		return journal.Row{}, false, known
	}
	return e.row(id.Key, v), v.Present(), known
}

// Newest implements [upstream.View].
func (e *Engine) Newest(namespace string, most int) (rows []journal.Row, total int, known bool) {
	found, total, known := e.index.rows(namespace, most)
	rows = make([]journal.Row, len(found))
	for i, r := range found {
		rows[i] = e.row(r.Key, r.Version)
	}
	return rows, total, known
}

func (e *Engine) row(key string, v upstream.Version) journal.Row {
	r := journal.Row{Key: key, ListBytes: v.ListBytes, UpdatedAt: v.WrittenAt, Origin: journal.Origin{At: v.WrittenAt}}
	if v.Writer.Host == e.opts.Host {
		r.Origin.Seq = v.Writer.Seq
	}
	return r
}

// NotBefore implements [upstream.View], by all writes that were seen. Times more than a minute ahead of
// this machine's clock count only for their own entries.
func (e *Engine) NotBefore(id journal.ID) float64 {
	v, _ := e.index.get(id)
	return max(v.WrittenAt, seconds(e.index.latest.get()))
}

// Follow implements [upstream.View].
func (e *Engine) Follow(changed func(id journal.ID, now upstream.Version)) { e.index.follow(changed) }

// Accept implements [upstream.View]: it makes the present bucket the mark.
func (e *Engine) Accept() error { return e.watch.accept() }

// State implements [upstream.View].
func (e *Engine) State() upstream.WatchState {
	_, _, sound := e.watch.view()
	since, why := e.watch.progress.state()
	if sound {
		why = ""
	}
	f := e.index.figures()
	return upstream.WatchState{
		Bucket: e.opts.Bucket, Server: e.link.connectedTo(), Entries: f.entries, Bytes: f.memory,
		CaughtUp: sound, Since: since, Reason: why, Lost: e.watch.keeper.lostWhy(),
	}
}
