package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/internal/diskfs"
)

const (
	// purgePatience bounds how long one attempt of a purge keeps the store in use: [Store.Repair] and
	// [Store.Close] wait for it.
	purgePatience = 5 * time.Second
	// purgePause and maxPurgePause bound the pause before the next attempt.
	purgePause    = 20 * time.Millisecond
	maxPurgePause = time.Second
)

// Span is a range of keys. From is inclusive, and To is exclusive.
type Span struct{ From, To []byte }

// Purge makes the store's files free of the records in some ranges that were removed or replaced. Removing
// alone only hides a record, in tables and in logs that wait for reuse. Records that the store still has
// stay. The caller must not have acquired the store, and makes one call at a time.
//
// Pebble drops such records when it merges the tables that hold them, unless a snapshot still shows them. It leaves
// a table alone that no newer one overlaps, even if it had to keep some for a snapshot. So Purge waits for the
// snapshots, writes a record of each table of the ranges again, merges the ranges, and waits until the tables from
// before are gone. A merge that was underway may meanwhile have written more tables for an old snapshot: these go in a
// second round.
// At last, new logs take the place of all others.
//
// Errors: those of ctx if a reader or a full disk prevents it for too long, [ErrClosed], [ErrFailed],
// [record.ErrCorrupt] if a table cannot be read, and those of the file system. It may be repeated.
func (s *Store) Purge(ctx context.Context, spans []Span) error {
	p := &purge{Store: s, spans: slices.Clip(spans)}
	defer s.newLogs.Store(false)
	for _, step := range []func(context.Context) ([]string, error){
		p.flush, p.list, p.replace, p.list, p.replace, p.renewLogs,
	} {
		if err := p.attempt(ctx, step); err != nil {
			return err
		}
	}
	return diskfs.SyncDir(s.opts.FS, s.opts.Dir)
}

// purge is one call of [Store.Purge].
type purge struct {
	*Store
	spans  []Span
	newest pebble.SeqNum   // number of the newest record that was in a table when memory was flushed
	old    map[string]bool // the files of tables when a round began
	again  map[string]bool // the keys whose records were written again in a round
	due    bool            // the spans must be merged
	first  uint64          // number of the first new log
}

// attempt calls step with the store in use, until it returns no tables that may still hold what was removed. A reader may
// use these, or a full disk may have no room for others.
func (p *purge) attempt(ctx context.Context, step func(context.Context) (tables []string, err error)) error {
	for pause := purgePause; ; pause = min(2*pause, maxPurgePause) {
		if err := p.Acquire(); err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, purgePatience)
		tables, err := step(soon)
		late := soon.Err()
		cancel()
		p.Look()
		full := diskfs.IsFull(err) || p.Pressure()
		p.Release()
		if err == nil && len(tables) == 0 {
			return nil
		}
		if err != nil && !diskfs.IsFull(err) && !errors.Is(err, late) {
			return err
		}
		select {
		case <-ctx.Done():
			return p.unfinished(tables, full, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// unfinished says which files may still hold removed records, and why.
func (p *purge) unfinished(files []string, full bool, err error) error {
	logs, listErr := listLogs(p.opts.FS, p.opts.Dir)
	for _, log := range logs {
		files = append(files, log.name)
	}
	why := "readers or merges still use them"
	if full {
		why = "the disk has no room for others"
	}
	return errors.Join(fmt.Errorf("files of the journal may still hold what was removed (%s), because %s: %w",
		strings.Join(files, ", "), why, err), listErr)
}

// flush writes memory to tables: no removed record is in memory any more.
func (p *purge) flush(ctx context.Context) ([]string, error) {
	if err := p.Flush(ctx); err != nil {
		return nil, err
	}
	tables, err := liveTables(p.db)
	for _, t := range tables {
		p.newest = max(p.newest, t.newest)
	}
	return nil, err
}

// list begins a round, once no snapshot shows what the tables hide.
func (p *purge) list(context.Context) (held []string, err error) {
	snapshots := p.db.Metrics().Snapshots
	names, err := p.opts.FS.List(p.opts.Dir)
	if err != nil {
		return nil, err
	}
	p.old, p.again = make(map[string]bool), make(map[string]bool)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			p.old[name] = true
		}
	}
	if snapshots.Count > 0 && snapshots.EarliestSeqNum <= p.newest { // guard 13.103
		_, held, err = p.look()
		return held, err
	}
	return nil, nil
}

// replace merges the old tables of the spans, and returns the files that are still there.
func (p *purge) replace(ctx context.Context) (left []string, err error) {
	held, left, err := p.look()
	if p.due = p.due || len(held) > 0; err != nil || !p.due {
		return left, err
	}
	spans := p.spans
	for _, t := range held {
		if t.part {
			spans = append(spans, Span{t.from, append(bytes.Clone(t.to), 0)})
		}
	}
	for _, span := range spans {
		if err := p.merge(ctx, span, held); err != nil {
			return left, err
		}
	}
	p.due = false
	_, left, err = p.look()
	return left, err
}

// look returns the old tables that may hold removed records, of those that Pebble reads, and the old files that must
// go: theirs, and those that Pebble still writes or is about to remove. Where a table is a part of its file, the rest of
// the file may hold them.
func (p *purge) look() (held []table, left []string, err error) {
	tables, err := liveTables(p.db)
	if err != nil {
		return nil, nil, err
	}
	outside := make(map[string]bool)
	for _, t := range tables {
		if !t.part && !slices.ContainsFunc(p.spans, t.meets) { // guard 13.102
			outside[t.file] = true
		} else if p.old[t.file] {
			held = append(held, t)
		}
	}
	names, err := p.opts.FS.List(p.opts.Dir)
	for _, name := range names {
		if p.old[name] && !outside[name] { // guard 13.104
			left = append(left, name)
		}
	}
	return held, left, err
}

// merge merges the tables of a span, after a record of each of them was written again.
func (p *purge) merge(ctx context.Context, span Span, tables []table) error {
	for _, t := range tables {
		key := t.from
		if bytes.Compare(key, span.From) < 0 {
			key = span.From
		}
		if !t.meets(span) || p.again[string(key)] {
			continue
		}
		// guard 13.38
		if err := p.Update(ChangeFunc(func(tx *Tx) error { return writeAgain(tx, key) })); err != nil {
			return err
		}
		p.again[string(key)] = true
	}
	return p.compactSpan(ctx, span.From, span.To)
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
func (p *purge) renewLogs(ctx context.Context) ([]string, error) {
	for {
		if p.Pressure() { // a log that finds no room ends the journal
			return nil, errWaits
		}
		p.newLogs.Store(true) // guard 13.37
		if err := p.Flush(ctx); err != nil {
			return nil, err
		}
		logs, err := listLogs(p.opts.FS, p.opts.Dir)
		if err != nil {
			return nil, err
		}
		if p.first == 0 && len(logs) > 0 {
			p.first = logs[len(logs)-1].number // no later log is an old file with another name
		}
		if len(logs) == 0 || logs[0].number >= p.first {
			return nil, nil
		}
	}
}
