package recovery

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// sortBytes bounds the bytes of records held in memory.
	sortBytes = 16 << 20
	// sortAtOnce bounds one batch of a sorter, in bytes.
	sortAtOnce = 1 << 20
	// versionHead is the length of a version's fields before its value.
	versionHead = 8 + 1
)

// sorter sorts the newest version of each key by key. It holds few records in memory; the rest is in a
// Pebble store of its own, which merges the versions of each key.
type sorter struct {
	db     *pebble.DB
	batch  *pebble.Batch
	held   int        // bytes written since the last flush
	failed chan error // Pebble's first failure in the background
}

// newSorter makes a sorter in a directory of its own. The caller closes it.
func newSorter(fsys vfs.FS, dir string) (s *sorter, err error) {
	defer func() { // Pebble panics if it cannot sync the directory
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("sorting what was found: %v", p)
		}
	}()
	s = &sorter{failed: make(chan error, 1)}
	opts := &pebble.Options{
		FS: fsys, DisableWAL: true, MemTableSize: sortBytes,
		// Nothing is read before all is written, so it is not worth merging tables.
		DisableAutomaticCompactions: true, L0StopWritesThreshold: 1 << 30,
		Merger: &pebble.Merger{Name: "newest", Merge: func(_, value []byte) (pebble.ValueMerger, error) {
			return &newest{bytes.Clone(value)}, nil
		}},
		EventListener: &pebble.EventListener{BackgroundError: s.fail},
		Logger:        quiet{s},
	}
	if s.db, err = pebble.Open(dir, opts); err != nil {
		return nil, err
	}
	s.batch = s.db.NewBatch()
	return s, nil
}

func (s *sorter) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

func (s *sorter) close() error { return errors.Join(s.batch.Close(), s.db.Close()) }

// add adds a version. order is Pebble's own sequence number: the highest is the newest. Of two with the
// same order, the later one counts.
func (s *sorter) add(key, value []byte, order uint64, deleted bool) error {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, versionHead+len(value)), order)
	if deleted {
		v = append(v, 1)
	} else {
		v = append(v, 0)
	}
	if err := s.batch.Merge(key, append(v, value...), nil); err != nil {
		return err
	}
	if s.batch.Len() < sortAtOnce {
		return nil
	}
	return s.apply()
}

// apply applies the batch. When much is in memory, it waits until Pebble has written that to a table: on a
// full disk Pebble itself would wait without end.
func (s *sorter) apply() (err error) {
	s.held += s.batch.Len()
	err = errors.Join(s.batch.Commit(pebble.NoSync), s.batch.Close())
	s.batch = s.db.NewBatch()
	if err == nil && s.held >= sortBytes/2 {
		s.held = 0
		var flushed <-chan struct{}
		if flushed, err = s.db.AsyncFlush(); err == nil {
			select {
			case <-flushed:
			case err = <-s.failed:
			}
		}
	}
	if err != nil {
		return fmt.Errorf("sorting what was found: %w", err)
	}
	return nil
}

// each calls visit for the newest version of each key, in key order. Key and value are valid only during
// the call.
func (s *sorter) each(visit func(key, value []byte, deleted bool) error) error {
	if err := s.apply(); err != nil {
		return err
	}
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		v := it.Value()
		if err := visit(it.Key(), v[versionHead:], v[versionHead-1] != 0); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// newest merges the versions of a key: the one with the highest order remains.
type newest struct{ version []byte }

// MergeNewer takes a version that was added later.
func (n *newest) MergeNewer(v []byte) error {
	if bytes.Compare(v[:8], n.version[:8]) >= 0 {
		n.version = append(n.version[:0], v...)
	}
	return nil
}

// MergeOlder takes a version that was added earlier.
func (n *newest) MergeOlder(v []byte) error {
	if bytes.Compare(v[:8], n.version[:8]) > 0 {
		n.version = append(n.version[:0], v...)
	}
	return nil
}

// Finish returns the version that remains.
func (n *newest) Finish(bool) ([]byte, io.Closer, error) { return n.version, nil, nil }

// quiet receives the messages of a sorter's store.
type quiet struct{ s *sorter }

func (quiet) Infof(string, ...any) {}

func (quiet) Errorf(string, ...any) {}

func (q quiet) Fatalf(format string, args ...any) { q.s.fail(fmt.Errorf(format, args...)) }
