package journal

import (
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// errEnough stops a scan early.
var errEnough = errors.New("enough")

// DeadLetters returns up to limit dead letters with sequence numbers above after, oldest first, without
// values. All of them are durable.
func (j *Journal) DeadLetters(after uint64, limit int) ([]DeadLetter, error) {
	if err := j.store.Acquire(); err != nil {
		return nil, err
	}
	defer j.store.Release()
	if after == math.MaxUint64 {
		return nil, nil
	}
	var letters []DeadLetter
	err := store.ScanDead(j.store.DB(), after+1, func(l *record.Dead) error {
		if len(letters) >= limit {
			return errEnough
		}
		letter := letterOf(l)
		letter.Value = ""
		letters = append(letters, letter)
		return nil
	})
	if err == nil || errors.Is(err, errEnough) { // guard 7.3
		err = j.store.AwaitDurable()
	}
	if err != nil {
		return nil, j.store.Owed(fmt.Errorf("dead letters: %w", err))
	}
	return letters, nil
}

func letterOf(l *record.Dead) DeadLetter {
	return DeadLetter{
		Write: writeOf(l.ID, &l.Pending, l.Value, l.Author), Kind: l.Kind, SupersededBy: l.SupersededBy,
		Status: l.Status, Error: l.Error, RefusedAt: l.RefusedAt,
	}
}

// ReadDeadLetter returns one dead letter with its value. The dead letter is durable. Errors:
// [ErrNoDeadLetter].
func (j *Journal) ReadDeadLetter(seq uint64) (DeadLetter, error) {
	if err := j.store.Acquire(); err != nil {
		return DeadLetter{}, err
	}
	defer j.store.Release()
	l, err := j.dead.read(seq)
	if err == nil {
		err = j.store.AwaitDurable() // guard 7.4
	}
	if err != nil {
		return DeadLetter{}, err
	}
	return letterOf(&l), nil
}

// IsDead reports whether write seq to an entry, or a newer one, has ended without reaching upstream, durably: it is a dead
// letter, or it has lost a conflict between hosts. state is [ReceiptDead] or [ReceiptSuperseded]. IsDead reads only what has
// ended from seq on.
func (j *Journal) IsDead(id ID, seq uint64) (state ReceiptState, dead bool, err error) {
	if err := j.store.Acquire(); err != nil {
		return 0, false, err
	}
	defer j.store.Release()
	state = ReceiptSuperseded
	if dead, err = j.copies.losses.has(id, seq); err == nil && !dead {
		state = ReceiptDead
		err = store.ScanDead(j.store.DB(), seq, func(l *record.Dead) error {
			if l.ID == id {
				return errEnough
			}
			return nil
		})
		dead = errors.Is(err, errEnough)
	}
	if dead {
		err = j.store.AwaitDurable() // guard 7.5
	}
	if err != nil {
		return 0, false, j.store.Owed(fmt.Errorf("how write %d to %s has ended: %w", seq, id, err))
	}
	return state, dead, nil
}

// AnyWrite lets [Journal.Retry] undo every write.
const AnyWrite = math.MaxUint64

// Retry makes a dead letter the newest write to its entry again, and removes the dead letter. It may
// undo writes with sequence numbers up to last. It returns [ErrNewer] if this host has made a write
// after last, or if the settled copy shows another host's state that is later than the dead letter. With
// [AnyWrite], it returns no [ErrNewer]. Unless last is [AnyWrite], the write keeps its original time and is
// Fenced, so that the fence finds later states that the journal does not know.
//
// Errors: [ErrNewer], [ErrNoDeadLetter] and those of [Journal.Append].
func (j *Journal) Retry(seq, last uint64) (Write, error) {
	if err := j.store.Acquire(); err != nil {
		return Write{}, err
	}
	defer j.store.Release()
	l, err := j.dead.read(seq)
	if err != nil {
		return Write{}, err
	}
	if err := j.pending.ready(l.ID); err != nil {
		return Write{}, err
	}
	unlock := j.copies.lock(l.Namespace)
	defer unlock()
	if last != AnyWrite && l.SupersededBy > last { // guard 13.13
		return Write{}, ErrNewer
	}
	r := &retrying{dead: l, letters: j.dead, appending: appending{
		copies: j.copies, frees: l.Size(), unlock: unlock,
		NewWrite: NewWrite{
			ID: l.ID, Op: l.Op, Value: l.Value, ListBytes: int(l.ListBytes), Author: l.Author,
			If: func(newest uint64) bool { return newest <= last }, // guard 13.11
		},
	}}
	if last != AnyWrite {
		r.WrittenAt, r.LosesTies, r.Fenced = l.WrittenAt, l.LosesTies, true // guard 17.10
	}
	settled, err := j.copies.head(l.ID) // no write settles while the copies lock is held
	if err != nil {
		return Write{}, err
	}
	if last != AnyWrite && isNewer(&settled, &l, last) {
		return Write{}, ErrNewer
	}
	r.notBefore = settled.UpdatedAt
	if err := j.store.Update(r); err != nil {
		return Write{}, err
	}
	return r.journaled(), nil
}

// isNewer reports whether a settled copy shows a write after last. For another host's state, isNewer
// reports whether it is later than the dead letter.
func isNewer(settled *Observation, l *record.Dead, last uint64) bool {
	if settled.Origin.Seq != 0 {
		return settled.Origin.Seq > last // guard 13.12
	}
	return settled.UpdatedAt > l.UpdatedAt // guard 13.16
}

// retrying is the change that makes a dead letter pending again.
type retrying struct {
	appending
	dead    record.Dead
	letters *deadIndex
}

// Fill admits the write, unless somebody else has retried or discarded it.
func (r *retrying) Fill(tx *store.Tx) error {
	if err := stillDead(tx, r.dead.Seq); err != nil {
		r.unlock() // guard 16.29
		return err
	}
	if err := r.appending.Fill(tx); errors.Is(err, ErrChanged) {
		return ErrNewer
	} else if err != nil {
		return err
	}
	r.letters.remove(tx, &r.dead)
	// guard 13.7
	r.copies.pending.receipts.add(tx, r.supersedes(&r.dead.Pending))
	return nil
}

// Discard removes a dead letter for good. Its receipt stays. Errors: [ErrNoDeadLetter].
func (j *Journal) Discard(seq uint64) error {
	if err := j.store.Acquire(); err != nil {
		return err
	}
	defer j.store.Release()
	l, err := j.dead.read(seq)
	if err != nil {
		return err
	}
	return j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		if err := stillDead(tx, seq); err != nil {
			return err
		}
		j.dead.remove(tx, &l)
		return nil
	}))
}

func stillDead(tx *store.Tx, seq uint64) error {
	r, err := tx.Reader()
	if err == nil {
		_, err = readDead(r, seq)
	}
	return err
}

// read reads a dead letter. Damage ends the process.
func (d *deadIndex) read(seq uint64) (record.Dead, error) {
	l, err := readDead(d.store.DB(), seq)
	return l, d.store.Owed(err)
}

func readDead(r pebble.Reader, seq uint64) (l record.Dead, err error) {
	ok, err := store.Get(r, record.DeadKey(seq), func(body []byte) (err error) {
		l, err = record.DecodeDead(seq, body)
		return err
	})
	if err != nil {
		return l, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if !ok {
		return l, fmt.Errorf("%w: %d", ErrNoDeadLetter, seq)
	}
	return l, nil
}
