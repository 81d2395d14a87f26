package recovery

import (
	"cmp"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/store"
)

// examine checks a store and returns an error that describes any damage. It changes nothing.
func examine(opts store.Options) error {
	m, err := store.Check(opts)
	if err != nil {
		return err
	}
	db, err := store.OpenPebble(opts)
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
	if err == nil {
		err = m.Reached(t)
	}
	if err != nil {
		return err
	}
	v := &view{db: db}
	s, err := sift(v)
	return cmp.Or(err, s.damage, v.damage, t.Compare(s.totals))
}
