package recovery

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// examine checks a store and returns an error that describes any damage. It changes nothing.
func examine(opts store.Options, version int) error {
	m, err := store.Check(opts)
	if err != nil {
		return err
	}
	db, err := store.OpenPebble(opts, true)
	if err != nil {
		return err
	}
	err = examineRecords(db, &m, version)
	if err == nil {
		err = store.CheckTables(opts, db) // guard 4.17
	}
	return store.Classify(errors.Join(err, db.Close()))
}

func examineRecords(db *pebble.DB, m *store.Mark, version int) (err error) {
	t, err := store.ReadTotals(db)
	if err != nil {
		return err
	}
	if err := m.Reached(t); err != nil {
		return err
	}
	versions, err := store.NewVersions(db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, versions.Close()) }()
	found, err := store.Count(db, func(id record.ID, v record.Version) error {
		if version == store.OldestFormat { // its pending records have the values
			return nil
		}
		_, err := versions.Find(id, v.Seq)
		return err
	})
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
	err = store.ScanPrefix(db, []byte(record.VersionPrefix), func(key, body []byte, _ uint32) error { return s.addVersion(key, body) })
	if err != nil {
		return err
	}
	return store.ScanPrefix(db, []byte(record.ReceiptPrefix), func(key, body []byte, _ uint32) error { return s.addReceipt(key, body) })
}
