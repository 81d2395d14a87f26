package recovery

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// examine checks a store and returns an error that describes any damage. It changes nothing.
func examine(opts store.Options, version int) error {
	var m store.Mark
	var err error
	if version > 1 { // format 1 has no mark
		m, err = store.Check(opts)
	} else {
		_, _, err = store.CheckLogs(opts.FS, opts.Dir)
	}
	if err != nil {
		return err
	}
	db, err := store.OpenPebble(opts, true)
	if err != nil {
		return err
	}
	err = examineRecords(db, &m)
	if err == nil {
		err = store.CheckTables(opts, db) // guard 4.17
	}
	return store.Classify(errors.Join(err, db.Close()))
}

func examineRecords(db *pebble.DB, m *store.Mark) error {
	t, err := store.ReadTotals(db)
	if err != nil {
		return err
	}
	if err := m.Reached(t); err != nil {
		return err
	}
	found, err := store.Count(db, func(record.ID, record.Version) error { return nil })
	if err != nil {
		return err
	}
	if err := t.Compare(found); err != nil {
		return err
	}
	var s sifter
	for _, prefix := range []string{record.SettledPrefix, record.SentPrefix, record.HeaderPrefix, record.RowPrefix} {
		err := store.ScanPrefix(db, []byte(prefix), func(_, body []byte, _ uint32) error { return s.addCopy(prefix, body) })
		if err != nil {
			return err
		}
	}
	return store.ScanPrefix(db, []byte(record.ReceiptPrefix), func(key, body []byte, _ uint32) error { return s.addReceipt(key, body) })
}
