package recovery

import (
	"cmp"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/store"
)

// Examine looks for the damage that a start has to find, and changes nothing: see [store.Examine]. Errors: [record.ErrCorrupt],
// and those of the file system.
func Examine(opts store.Options) error { return store.Examine(opts, false, checkRecords) }

func checkRecords(db *pebble.DB) error {
	s, err := sift(&view{db: db})
	return cmp.Or(err, s.damage)
}
