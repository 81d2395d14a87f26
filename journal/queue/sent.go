package queue

import (
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// sendingFor is how far ahead the time is that [Queue.BeginSending] keeps, if the disk is not slower than that.
const sendingFor = time.Second

// sendings keeps the time until which something may be sent upstream. It may be used concurrently.
type sendings struct {
	clock func() (boot string, since time.Duration) // Options.BootClock
	found bool                                      // writes of an earlier process were pending when the journal was opened

	turn  chan struct{} // holds a token while somebody uses the fields below, perhaps over a sync
	kept  bool          // the disk has the time
	boot  string
	until time.Duration
}

// MaySend returns [ErrFull] while the disk may lack the room to record an outcome: then nothing may be sent.
func (q *Queue) MaySend() error {
	return q.store.Use(func() error {
		q.store.Look()
		if q.store.Critical() { // guard 3.6
			return ErrFull
		}
		return nil
	})
}

// BeginSending returns once the disk has a time to come until which the caller may send requests.
func (q *Queue) BeginSending() error {
	if err := q.store.Acquire(); err != nil {
		return err
	}
	defer q.store.Release()
	s := &q.sendings
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	for ahead := sendingFor; ; ahead *= 2 { // a disk may be slower than that
		boot, now := s.clock()
		if s.kept && s.boot == boot && (now < s.until || boot == "") { // guard 14.11
			return nil
		}
		if err := q.keepSending(record.Sending{Boot: boot, At: int64(now + ahead)}); err != nil {
			return err
		}
		s.kept, s.boot, s.until = true, boot, now+ahead
	}
}

func (q *Queue) keepSending(at record.Sending) error {
	return q.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		tx.Set(record.SendingKey, record.EncodeSending(at))
		return nil
	}))
}

// unknownBoot is the boot of a time that an earlier process has kept.
const unknownBoot = "unknown"

// allAnswered is the time of a record that says that upstream can carry out nothing more.
const allAnswered = -1

// EndSending records that upstream can carry out nothing more of what was sent.
func (q *Queue) EndSending() error {
	return q.store.Use(func() error {
		s := &q.sendings
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		if !s.kept {
			return nil
		}
		s.kept = false
		return q.keepSending(record.Sending{At: allAnswered})
	})
}

// LastSending returns how long ago an earlier process may last have sent something that upstream has not answered: at
// least so long, and 0 if nobody knows. ok is false if there is no such thing: a request that is not answered leaves its
// entry pending, or, if the write was dropped, what upstream may hold of it.
func (q *Queue) LastSending() (ago time.Duration, ok bool, err error) {
	err = q.store.Use(func() error {
		s := &q.sendings
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		var last record.Sending
		found, err := store.Get(q.store.DB(), record.SendingKey, func(body []byte) (err error) {
			last, err = record.DecodeSending(body)
			return err
		})
		switch {
		case err == nil && !found: // a directory of an older botwired says only what was sent
			ok, err = store.HoldsAny(q.store.DB(), []byte(record.LeftPrefix))
			s.kept = ok
		// guard 14.29
		case store.IsDamage(err), err == nil && last == record.Sending{}: // a recovery may have lost what was pending
			s.kept, ok, err = true, true, nil
		case err == nil && last.At != allAnswered:
			s.kept = true // guard 14.26
			if boot, now := s.clock(); last.Boot != "" && last.Boot == boot {
				ago = max(0, now-time.Duration(last.At)) // guard 14.17
			}
			if ok = s.found; !ok { // guard 14.28
				ok, err = store.HoldsAny(q.store.DB(), []byte(record.LeftPrefix)) // guard 14.30
			}
		}
		s.boot = unknownBoot
		return err
	})
	return ago, ok, err
}

// MarkSent records that a write is being sent: if a newer one takes its place, the journal keeps what upstream may hold
// (see [Queue.Left]). It returns whether this content of the entry may have been sent before; a write of an earlier
// process may.
func (q *Queue) MarkSent(w Write) (before bool, err error) {
	err = q.store.Use(func() error {
		left, _, err := q.readLeft(q.store.DB(), w.ID)
		if err != nil {
			return err
		}
		newest := false
		q.store.InOrder(func(record.Totals) { before, newest = q.sent(w.ID, w.Seq, true) })
		before = before || len(left) > 0 && slices.Contains(left, ContentOf(w.Op, w.Value)) // guard 17.70
		if newest {
			return nil
		}
		// The newer write has been journaled without a word of this one.
		return q.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			left, err := q.leftWith(tx, w.ID, ContentOf(w.Op, w.Value))
			if err == nil {
				setLeft(tx, w.ID, left) // guard 14.15
			}
			return err
		}))
	})
	return before, err
}

// UnmarkSent takes back that a write was sent: upstream has not carried it out, and will not. The write's content must not
// have been sent before.
func (q *Queue) UnmarkSent(w Write) error {
	return q.store.Use(func() error {
		newest := false
		q.store.InOrder(func(record.Totals) { _, newest = q.sent(w.ID, w.Seq, false) })
		if newest {
			return nil
		}
		// The newer write has been journaled with a word of this one.
		return q.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			r, err := tx.Reader()
			if err != nil {
				return err
			}
			left, known, err := q.readLeft(r, w.ID)
			if err != nil || !known {
				return err
			}
			// guard 17.71
			without := slices.DeleteFunc(left, func(c Content) bool { return c == ContentOf(w.Op, w.Value) })
			// guard 17.72
			if len(without) == 0 { // an empty record would say that nobody knows
				tx.Delete(record.EntryKey(record.LeftPrefix, w.ID))
				return nil
			}
			setLeft(tx, w.ID, without)
			return nil
		}))
	})
}

// Left returns what this journal's requests for an entry may have left upstream since it last settled: older writes,
// and its pending one if that may have been sent. known is false if a recovery has lost what was sent.
func (q *Queue) Left(w Write) (left []Content, known bool, err error) {
	err = q.store.Use(func() (err error) {
		left, known, err = q.LeftOf(w)
		return err
	})
	return left, known, err
}

// LeftOf is [Queue.Left] for a caller who has acquired the store.
func (q *Queue) LeftOf(w Write) (left []Content, known bool, err error) {
	if left, known, err = q.readLeft(q.store.DB(), w.ID); err == nil && known && q.wasSent(w.ID, w.Seq) {
		left = withLast(left, ContentOf(w.Op, w.Value))
	}
	return left, known, err
}

// mostLeft bounds what is kept of one entry: in an outage of days, a busy entry would keep ever more.
const mostLeft = 64

// readLeft returns what requests may have left of an entry, as the disk says. known is false if that is lost. Damage ends the
// process.
func (q *Queue) readLeft(r pebble.Reader, id ID) (left []Content, known bool, err error) {
	found, err := store.Get(r, record.EntryKey(record.LeftPrefix, id), func(body []byte) (err error) {
		left, err = record.DecodeLeft(body)
		return err
	})
	return left, !found || len(left) > 0, q.store.Owed(err)
}

// leftWith returns what requests may have left of an entry, with one more of them; empty if nobody knows.
func (q *Queue) leftWith(tx *store.Tx, id ID, c Content) ([]Content, error) {
	r, err := tx.Reader()
	if err != nil {
		return nil, err
	}
	left, known, err := q.readLeft(r, id)
	if err != nil || !known {
		return nil, err
	}
	return withLast(left, c), nil
}

// withLast adds a content to what is left, as the last one.
func withLast(left []Content, c Content) []Content {
	left = append(slices.DeleteFunc(left, func(other Content) bool { return other == c }), c)
	return left[max(0, len(left)-mostLeft):]
}

// setLeft adds to a batch what requests may have left of an entry.
func setLeft(tx *store.Tx, id ID, left []Content) {
	key := record.EntryKey(record.LeftPrefix, id)
	tx.Set(key, record.EncodeLeft(key, left))
}

// sent records whether the entry's newest pending write is sent. newest is false, and nothing changes, if another
// write is the newest one. The caller is in the store's order.
func (q *Queue) sent(id ID, seq uint64, is bool) (before, newest bool) {
	q.Readers.Lock()
	defer q.Readers.Unlock()
	e := q.index.Get(id)
	if v, ok := e.Latest(); !ok || v.Seq != seq {
		return false, false
	}
	before, e.Sent = e.Sent, is
	return before, true
}

// wasSent reports whether a write is the entry's newest one, and may have been sent.
func (q *Queue) wasSent(id ID, seq uint64) bool {
	q.Readers.RLock()
	defer q.Readers.RUnlock()
	e := q.index.Get(id)
	v, ok := e.Latest()
	return ok && v.Seq == seq && e.Sent
}
