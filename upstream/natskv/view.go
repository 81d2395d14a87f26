package natskv

import (
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// CaughtUp implements [upstream.View]. ok says that the last successful comparison is at most 3 s old,
// there is a connection, and the bucket is not refused.
func (e *Engine) CaughtUp() (asOf, since time.Time, ok bool) {
	asOf, since, ok = e.watch.progress.isSound(time.Now())
	return asOf, since, ok && e.link.jetStream() != nil && e.watch.keeper.refuses() == nil
}

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
	total, known = e.index.rows(namespace, most, func(key string, v upstream.Version) { rows = append(rows, e.row(key, v)) })
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
func (e *Engine) Follow(changed func(id journal.ID, now upstream.Version)) {
	e.index.mu.Lock()
	defer e.index.mu.Unlock()
	e.index.onChange = changed
}

// Usable implements [upstream.View].
func (e *Engine) Usable(usable func()) {
	k := e.watch.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onUsable = usable
}

// Accept implements [upstream.View]: it makes the present bucket the mark.
func (e *Engine) Accept(restores bool) error {
	accepted, err := e.watch.keeper.accept()
	if err != nil || !accepted {
		return err
	}
	e.opts.Logger.Warn("the bucket is accepted as it is now", "bucket", e.opts.Bucket)
	select {
	case e.watch.accepts <- restores:
	default:
	}
	return nil
}

// State implements [upstream.View].
func (e *Engine) State() upstream.WatchState {
	_, _, sound := e.CaughtUp()
	since, why := e.watch.progress.state()
	if sound {
		why = ""
	}
	f := e.index.figures()
	return upstream.WatchState{
		Refused: e.watch.keeper.unusable(),
		Bucket:  e.opts.Bucket, Server: e.link.connectedTo(), Entries: f.entries, Bytes: f.memory,
		CaughtUp: sound, Since: since, Reason: why, Lost: e.watch.keeper.lostWhy(),
	}
}
