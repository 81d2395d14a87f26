package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

const (
	// scrubPatience bounds how long one step of a scrub keeps the store in use: [Store.Repair] and
	// [Store.Close] wait for it.
	scrubPatience = 5 * time.Second
	// scrubPause and maxScrubPause bound the pause before the next attempt, while a reader still has a
	// file open, or the disk has no room to merge tables.
	scrubPause    = 20 * time.Millisecond
	maxScrubPause = time.Second
)

// Span is a range of keys. From is inclusive, and To is exclusive.
type Span struct {
	From, To []byte
	// Holds selects the records of the range that must go from the files once they are removed or replaced.
	// With nil, the tables of the range are merged, and it does not matter what remains.
	Holds func(key, body []byte) bool
}

// Scrub makes the store's files free of the records in some ranges that were removed or replaced. Removing
// alone only hides a record, in tables and in logs that wait for reuse. Records that the store still has
// stay. The caller must not have acquired the store, and makes one call at a time.
//
// Errors: those of ctx if a reader or a full disk prevents it for too long, [ErrClosed], [ErrFailed],
// [record.ErrCorrupt] if a table cannot be read, and those of the file system. It may be repeated.
func (s *Store) Scrub(ctx context.Context, spans []Span) error {
	var partial map[string]bool
	for pause := scrubPause; ; pause = min(2*pause, maxScrubPause) {
		full, err := s.mergeSpans(ctx, spans)
		var left []string
		if err == nil {
			left, partial, err = s.tablesWithRemoved(ctx, spans, partial)
		}
		s.Look()
		full = full || s.Pressure()
		if err == nil && len(left) == 0 && !full { // a log that finds no room ends the journal
			return s.renewLogs(ctx)
		}
		for i := 0; i < len(left) && err == nil; i++ {
			err = s.rewrite(ctx, left[i]) // guard 13.38
		}
		full = full || errors.Is(err, errNotFlushed)
		if err != nil && !errors.Is(err, errNotFlushed) && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
			return err
		}
		select {
		case <-ctx.Done():
			why := "a reader still has them open"
			if full {
				why = "the disk has no room for files without them"
			}
			return fmt.Errorf("removed records are still in files of the journal, because %s: %w", why, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// errNotFlushed says that memory could not be written to tables in time.
var errNotFlushed = errors.New("not flushed")

// using calls step with the store in use.
func (s *Store) using(step func() error) error {
	if err := s.Acquire(); err != nil {
		return err
	}
	defer s.Release()
	return step()
}

// begin calls step with the store in use, and stops waiting for it after scrubPatience: the next attempt
// goes on with it. ended says that the step has ended by then.
func (s *Store) begin(ctx context.Context, step func(context.Context) error) (ended bool, err error) {
	err = s.using(func() error {
		soon, cancel := context.WithTimeout(ctx, scrubPatience)
		defer cancel()
		if err = step(soon); soon.Err() != nil && errors.Is(err, soon.Err()) {
			return ctx.Err()
		}
		ended = true
		return err
	})
	return ended, err
}

// mergeSpans writes memory to tables and merges the tables of the spans, and so drops most of the removed
// records. full says that the disk lacks the room for that.
func (s *Store) mergeSpans(ctx context.Context, spans []Span) (full bool, err error) {
	flushed, err := s.begin(ctx, s.Flush)
	if diskfs.IsFull(err) || err == nil && !flushed { // a removed record may still come to a table
		err = errNotFlushed
	}
	if err != nil {
		return false, err
	}
	for _, span := range spans {
		_, err := s.begin(ctx, func(ctx context.Context) error { return s.compactSpan(ctx, span.From, span.To) })
		if diskfs.IsFull(err) {
			full = true
		} else if err != nil {
			return full, err
		}
	}
	return full, nil
}

// tablesWithRemoved returns the files of tables that hold removed records of the spans, whether Pebble
// still needs the files or is about to remove them.
//
// A file may be a part of a table: Pebble is writing it, from tables that are read here too, or an earlier
// process was cut off in that. So tablesWithRemoved returns those that it has met at the first call, and
// takes these as its argument from then on: they must become whole, or go.
func (s *Store) tablesWithRemoved(ctx context.Context, spans []Span, partial map[string]bool) (left []string, _ map[string]bool, err error) {
	read, first := make(map[string]bool), partial == nil
	if first {
		partial = make(map[string]bool)
	}
	for more := true; more; { // a merge may have written a table since the directory was listed
		more = false
		names, err := s.opts.FS.List(s.opts.Dir)
		if err != nil {
			return nil, partial, err
		}
		for _, name := range names {
			if read[name] || !strings.HasSuffix(name, ".sst") {
				continue
			}
			read[name], more = true, true
			var found bool
			err := s.using(func() (err error) {
				found, err = s.holdsRemoved(name, spans)
				return err
			})
			if errors.Is(err, errPartial) {
				partial[name] = partial[name] || first
				found, err = partial[name], nil
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return nil, partial, err
			}
			if found {
				left = append(left, name)
			}
		}
	}
	return left, partial, nil
}

// errPartial says that a file is no table yet.
var errPartial = errors.New("part of a table")

// holdsRemoved reads a table's file without Pebble's view of it, which leaves out removed records.
func (s *Store) holdsRemoved(name string, spans []Span) (found bool, err error) {
	file, err := OpenTable(s.opts.FS, s.opts.FS.PathJoin(s.opts.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r, err := sstable.NewReader(context.Background(), file, sstable.ReaderOptions{})
	if err != nil {
		err = errors.Join(damagedTable(name, err), file.Close())
		tables, listErr := liveTables(s.db)
		if live := slices.ContainsFunc(tables, func(t table) bool { return t.file == name }); !live && listErr == nil {
			return false, errPartial
		}
		return false, errors.Join(err, listErr)
	}
	for i := 0; i < len(spans) && !found && err == nil; i++ {
		if spans[i].Holds != nil {
			found, err = s.holdsRemovedIn(r, &spans[i])
		}
	}
	return found, errors.Join(damagedTable(name, err), r.Close())
}

func (s *Store) holdsRemovedIn(r *sstable.Reader, span *Span) (found bool, err error) {
	it, err := r.NewIter(sstable.NoTransforms, span.From, span.To, sstable.AssertNoBlobHandles)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for kv := seek(it.SeekGE, span.From); kv != nil; kv = it.Next() {
		if kind := kv.K.Kind(); kind != pebble.InternalKeyKindSet && kind != pebble.InternalKeyKindSetWithDelete {
			continue // it has no value
		}
		sealed, _, err := kv.Value(nil)
		if err != nil {
			return false, err
		}
		key := kv.K.UserKey
		if body, err := record.Unseal(key, sealed); err != nil || !span.Holds(key, body) {
			continue
		}
		if has, err := s.has(key, sealed); err != nil || !has {
			return err == nil, err
		}
	}
	return false, it.Error()
}

// seek calls an iterator's SeekGE without flags. Pebble hides F, their type.
func seek[F, KV any](seekGE func([]byte, F) KV, key []byte) KV {
	var none F
	return seekGE(key, none)
}

// has reports whether the store still has exactly this record.
func (s *Store) has(key, sealed []byte) (bool, error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return bytes.Equal(value, sealed), closer.Close()
}

// rewrite makes Pebble rewrite the tables in a file, if there are any: it writes the first record of each
// again, and merges that down. Otherwise Pebble would leave a table alone whose removed records no newer
// table overlaps, because a reader needed them when the table was merged.
func (s *Store) rewrite(ctx context.Context, file string) error {
	var tables []table
	err := s.using(func() (err error) {
		tables, err = liveTables(s.db)
		return err
	})
	for _, t := range tables {
		if t.file != file || err != nil {
			continue
		}
		err = s.using(func() error {
			return s.Update(ChangeFunc(func(tx *Tx) error { return writeAgain(tx, t.from) }))
		})
		if err == nil {
			_, err = s.begin(ctx, func(ctx context.Context) error {
				return s.compactSpan(ctx, t.from, append(bytes.Clone(t.from), 0))
			})
		}
		if diskfs.IsFull(err) {
			err = nil // the next attempt may find room
		}
	}
	return err
}

func writeAgain(tx *Tx, key []byte) error {
	r, err := tx.Reader()
	if err != nil {
		return err
	}
	value, closer, err := r.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		tx.Delete(key)
		return nil
	case err == nil:
		tx.Set(key, value)
		err = closer.Close()
	}
	return err
}

// renewLogs replaces all logs, also those that Pebble keeps for reuse, by new files.
func (s *Store) renewLogs(ctx context.Context) error {
	s.newLogs.Store(true) // guard 13.37
	defer s.newLogs.Store(false)
	if _, err := s.begin(ctx, s.Flush); err != nil { // from here on, no log is an old file with another name
		return err
	}
	old, err := listLogs(s.opts.FS, s.opts.Dir)
	if err != nil {
		return err
	}
	for left := true; left; {
		if _, err := s.begin(ctx, s.Flush); err != nil {
			return err
		}
		left = false
		for _, log := range old {
			_, err := s.opts.FS.Stat(s.opts.FS.PathJoin(s.opts.Dir, log.name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			left = left || err == nil
		}
	}
	return diskfs.SyncDir(s.opts.FS, s.opts.Dir)
}
