package store

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// VersionBytes returns the total size of the versions written since the store was opened, in bytes.
func (p *pipeline) VersionBytes() int64 { return p.versionBytes.Load() }

// Versions looks versions up, fastest in key order. It is not safe for concurrent use.
type Versions struct{ it *pebble.Iterator }

// NewVersions returns a reader of versions. The caller closes it.
func NewVersions(r pebble.Reader) (Versions, error) {
	prefix := []byte(record.VersionPrefix)
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	return Versions{it}, err
}

// Close ends the use of the reader.
func (v Versions) Close() error { return v.it.Close() }

// Find returns the record of a version, which is valid until the next call. Errors: [record.ErrCorrupt]
// also if there is none.
func (v Versions) Find(id record.ID, seq uint64) (sealed []byte, err error) {
	key := record.VersionKey(id, seq)
	if v.it.SeekGE(key) && bytes.Equal(v.it.Key(), key) {
		sealed = v.it.Value()
		_, err = record.Unseal(key, sealed)
		return sealed, err
	}
	if err := v.it.Error(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: pending write %d to %s has no value", record.ErrCorrupt, seq, id)
}
