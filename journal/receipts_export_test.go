package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// KeepReceipts sets the maximum number of receipts.
func KeepReceipts(o *Options, most uint64) { o.receiptsKept = most }

// ReceiptKey returns the key of a receipt's record in the first generation.
func ReceiptKey(seq uint64) string { return string(record.ReceiptKey(0, seq)) }

// MaintainReceipts does what Maintain does for receipts once a second.
func (j *Journal) MaintainReceipts() error { return j.queue.MaintainReceipts() }

// PeriodBegan sets the start of the present period by the wall clock.
func (j *Journal) PeriodBegan(at time.Time) error {
	return j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		found, err := store.Get(j.store.DB(), record.GenerationsKey, func(body []byte) error {
			known, err := record.DecodeGenerations(body)
			known.BeganAt = float64(at.Unix())
			tx.Set(record.GenerationsKey, record.EncodeGenerations(&known))
			return err
		})
		if err == nil && !found {
			err = errors.New("there is no period")
		}
		return err
	}))
}

// Watchers returns how many entries are watched.
func (j *Journal) Watchers() int {
	_, watched := j.queue.Readers.Count()
	return watched
}

// CheckReceipts checks, at one moment, that every write ever made is either pending or has a receipt,
// and that the receipts agree with each other and with the dead letters. Versions that upstream has shown take
// numbers, too: noWrites are the numbers of those that were removed.
func (j *Journal) CheckReceipts(noWrites ...uint64) error {
	var found error
	err := j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		var db pebble.Reader
		if db, found = tx.Reader(); found == nil {
			found = j.checkReceipts(db, tx.Totals().Seq, noWrites)
		}
		return errChecked
	}))
	if !errors.Is(err, errChecked) {
		return err
	}
	return found
}

func (j *Journal) checkReceipts(db pebble.Reader, last uint64, noWrites []uint64) error {
	entries, pending, err := writesIn(db)
	if err != nil {
		return err
	}
	err = store.ScanPrefix(db, []byte(record.VersionPrefix), func(key, body []byte, _ uint32) error {
		_, seq, err := record.ParseVersionKey(key)
		if err != nil {
			return err
		}
		v, err := record.DecodeVersion(body)
		if v.Shown {
			noWrites = append(noWrites, seq)
		}
		return err
	})
	if err != nil {
		return err
	}
	receipts, records := make(map[uint64]record.Receipt), uint64(0)
	err = store.ScanPrefix(db, []byte(record.ReceiptPrefix), func(key, body []byte, _ uint32) error {
		_, seq, err := record.ParseReceiptKey(key)
		if err != nil || seq == 0 {
			return nil //nolint:nilerr // the record of the generations, or a named request
		}
		r, err := record.DecodeReceipt(seq, body)
		if old, twice := receipts[seq]; twice && (old.State != ReceiptDead || r.State != ReceiptSuperseded) {
			return errors.Join(err, fmt.Errorf("write %d has two receipts: %s and %s", seq, old.State, r.State))
		}
		receipts[seq], entries[seq] = r, r.ID
		records++
		return err
	})
	if err != nil {
		return err
	}
	if counted := j.queue.ReceiptsKept(); counted < records { // a receipt that is written again counts twice
		return fmt.Errorf("%d receipts are kept, and %d counted", records, counted)
	}
	for seq := uint64(1); seq <= last; seq++ {
		r, ended := receipts[seq]
		switch {
		case slices.Contains(noWrites, seq):
			if ended || pending[seq] {
				return fmt.Errorf("write %d of %d is another host's state, and has a receipt: %v", seq, last, ended)
			}
		case ended == pending[seq]:
			return fmt.Errorf("write %d of %d: pending is %v, and its receipt is there: %v, %s", seq, last, pending[seq], ended, r.State)
		case r.By != 0 && (r.By <= seq || r.By > last || entries[r.By] != r.ID || r.State != ReceiptSuperseded):
			return fmt.Errorf("write %d of %d to %s is %s by write %d to %s", seq, last, r.ID, r.State, r.By, entries[r.By])
		case ended && (r.WrittenAt == 0 || r.SettledAt < r.WrittenAt):
			return fmt.Errorf("write %d was written at %v and ended at %v", seq, r.WrittenAt, r.SettledAt)
		}
	}
	return store.ScanDead(db, 0, func(l *record.Dead) error {
		if r := receipts[l.Seq]; r.State != ReceiptDead || r.By != 0 || r.Reason != l.Error {
			return fmt.Errorf("dead letter %d is %s by %d, %q", l.Seq, r.State, r.By, r.Reason)
		}
		return nil
	})
}

// writesIn returns the writes in the store, each with its entry, and those that are pending.
func writesIn(db pebble.Reader) (entries map[uint64]ID, pending map[uint64]bool, err error) {
	entries, pending = make(map[uint64]ID), make(map[uint64]bool)
	err = store.ScanPending(db, []byte(record.PendingPrefix), func(id ID, v record.Pending) error {
		entries[v.Seq], pending[v.Seq] = id, true
		return nil
	})
	return entries, pending, err
}
