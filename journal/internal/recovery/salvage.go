package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// salvage reads the records of a damaged store past Pebble, from the tables and logs one by one.
// It does not trust the manifest.
type salvage struct {
	records *sorter
	newest  record.Totals // the newest state record seen
	stated  bool          // there was one
	unread  []string
	failure error // the sorter's: no damage of the store
}

// readStore reads all tables and logs as far as they can be read.
func (t *task) readStore() (*salvage, error) {
	fsys, dir := t.opts.FS, t.opts.Dir
	s := &salvage{records: &sorter{fs: fsys, dir: sortingName(dir), limit: sortBytes}}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".log")
	})
	slices.Sort(names)
	t.progress.OfFiles = len(names)
	for _, name := range names {
		path := fsys.PathJoin(dir, name)
		if strings.HasSuffix(name, ".sst") {
			err = s.readTable(fsys, path)
		} else {
			err = s.readLog(fsys, path, name)
		}
		if s.failure != nil {
			return nil, s.failure
		}
		if err != nil {
			s.unread = append(s.unread, fmt.Sprintf("%s: %v", name, store.OneLine(err)))
		}
		t.progress.Files++
		t.reportProgress()
	}
	return s, nil
}

func (s *salvage) take(key, value []byte, order uint64, deleted bool) error {
	if !bytes.Equal(key, record.StateKey) {
		s.failure = s.records.add(key, value, order, deleted)
		return s.failure
	}
	// A state record that does not check is ignored.
	if body, err := record.Unseal(key, value); err == nil && !deleted {
		if t, err := record.DecodeTotals(body); err == nil {
			s.state(&t)
		}
	}
	return nil
}

// state keeps a state record if it is the newest so far.
func (s *salvage) state(t *record.Totals) {
	if !s.stated || t.Batches > s.newest.Batches || t.Batches == s.newest.Batches && t.Seq >= s.newest.Seq {
		s.newest, s.stated = *t, true
	}
}

// readTable reads a table. If a block is damaged, readTable reads from the other end too,
// so that the block hides no records but its own.
func (s *salvage) readTable(fsys vfs.FS, path string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	file, err := store.OpenTable(fsys, path)
	if err != nil {
		return err
	}
	r, err := sstable.NewReader(context.Background(), file, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	err = s.walk(r, false)
	if err != nil {
		err = errors.Join(err, s.walk(r, true))
	}
	return err
}

func (s *salvage) walk(r *sstable.Reader, backwards bool) error {
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	kv, step := it.First(), it.Next
	if backwards {
		kv, step = it.Last(), it.Prev
	}
	for ; kv != nil; kv = step() {
		value, _, err := kv.Value(nil)
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if err := s.take(kv.K.UserKey, value, uint64(kv.SeqNum()), removes(kv.Kind())); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func removes[K ~uint8](kind K) bool {
	return kind == K(sstable.InternalKeyKindDelete) || kind == K(sstable.InternalKeyKindSingleDelete) ||
		kind == K(sstable.InternalKeyKindDeleteSized)
}
