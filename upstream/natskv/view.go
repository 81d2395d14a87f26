package natskv

import (
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// view returns up to when the index is known to be complete, since when that has been so without a
// gap, and whether it still is.
func (w *watch) view() (asOf, since time.Time, ok bool) {
	asOf, since, ok = w.progress.isSound(time.Now())
	return asOf, since, ok && w.e.link.jetStream() != nil && w.keeper.refuses() == nil
}

// CaughtUp returns the last moment up to which the index is known to have missed nothing, since when
// that has been so without a gap, and whether it still is: at most 3 s ago the watch was found to be
// complete, and the connection is there.
func (e *Engine) CaughtUp() (asOf, since time.Time, ok bool) { return e.watch.view() }

// Entry returns an entry's last version as a row of a listing, whose Origin has Seq if the version is a
// write of this host's. A tombstone's row has its time, and present is false. known is false until the
// whole bucket has been read once.
func (e *Engine) Entry(id journal.ID) (row journal.Row, present, known bool) {
	v, known := e.index.get(id)
	if v.Revision == 0 {
		return journal.Row{}, false, known
	}
	return e.row(id.Key, v), v.Present(), known
}

// Newest returns up to most rows of a namespace, the newest first, and how many it has. See Entry for
// known.
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

// NotBefore returns the time, in Unix seconds, that a new write to an entry has to be later than: that
// of the entry's known version, and of any write that was seen. Times more than a minute ahead of this
// machine's clock count for their own entries only.
func (e *Engine) NotBefore(id journal.ID) float64 {
	v, _ := e.index.get(id)
	return max(v.WrittenAt, seconds(e.index.latest.get()))
}

// Accept has the engine go on with the bucket that is there, after Report has said Lost. It returns an
// error if what the bucket is cannot be saved; the engine goes on refusing then.
func (e *Engine) Accept() error { return e.watch.accept() }

// Report describes the engine as it is now.
func (e *Engine) Report() Report {
	_, _, sound := e.watch.view()
	since, why := e.watch.progress.state()
	if sound {
		why = ""
	}
	f := e.index.figures()
	return Report{
		Bucket: e.opts.Bucket, Server: e.link.connectedTo(), Revision: f.revision, Entries: f.entries, Memory: f.memory,
		CaughtUp: sound, Since: since, Why: why, Lost: e.watch.keeper.lostWhy(),
		Warnings: e.bucket.warns(),
	}
}
