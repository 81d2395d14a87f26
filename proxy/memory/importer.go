package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// importPause bounds a wait for room while the journal is full of other writes.
const importPause = time.Second

// Importer imports the entries of a file as writes. Each write is a copy of an earlier state, and gives
// way to any newer state, here and upstream. An entry that already has its value costs no write. So a
// repeated import does only what is left.
//
// To leave room in the journal and the quota for agents, an import bounds its pending writes.
type Importer struct {
	m       *Memory
	turn    chan struct{}   // held by the running import
	pending *pendingImports // guarded by turn
}

// NewImporter returns an importer. A memory has only one.
func NewImporter(m *Memory) *Importer {
	return &Importer{m: m, turn: make(chan struct{}, 1), pending: &pendingImports{receipts: m.journal.Receipts}}
}

// Begin waits until no other import is running, and returns false if ctx ends first. Call end after the
// import.
func (im *Importer) Begin(ctx context.Context) (end func(), ok bool) {
	select {
	case im.turn <- struct{}{}:
		return func() { <-im.turn }, true
	case <-ctx.Done():
		return nil, false
	}
}

// ImportedEntry is an entry to import.
type ImportedEntry struct {
	journal.ID
	Value     string
	UpdatedAt float64 // Unix seconds; 0 if unknown
}

// Imported counts the outcomes of entries.
type Imported struct {
	Taken   int // how many entries were handled, from the first on
	Written int
	Same    int    // the entry already has this value
	Older   int    // the entry is at least as new
	Waits   string // why the import waits; empty if it does not
}

type importing struct {
	*Importer
	done Imported
}

// Import imports the entries, which Options.Check takes, in order until ctx ends. It asks upstream about some of them
// ahead of time. The caller must have called Begin.
func (im *Importer) Import(ctx context.Context, entries []ImportedEntry) (Imported, error) {
	run := &importing{Importer: im}
	err := inOrder(im.m.fetches.logger, entries, ctx.Err, run.ask, func(s askedEntry) error {
		err := run.importOne(ctx, s)
		if err == nil {
			run.done.Taken++
		}
		return err
	})
	return run.done, err
}

type askedEntry struct {
	entry *ImportedEntry
	item  *cache.Item // nil if upstream was not asked or did not answer
}

func (run *importing) ask(entry *ImportedEntry) (askedEntry, error) {
	found, err := run.m.findEntry(entry.ID, AnyAge)
	if err != nil || found.freshness == cache.Fresh {
		return askedEntry{entry, found.item}, err
	}
	from := newEntry(run.m, entry.ID, found.generation, false)
	got, err := run.m.fetchFor(found.freshness, from)
	if err != nil {
		return askedEntry{entry, nil}, nil //nolint:nilerr // what is known here decides, and the fence
	}
	return askedEntry{entry, got.item(from.key())}, nil
}

// importOne decides on an entry, and writes it if necessary. If something comes in between, it decides again.
func (run *importing) importOne(ctx context.Context, s askedEntry) error {
	return unlessOvertaken(ctx, func() error {
		id := s.entry.ID
		lease := run.m.cache.Lease(entryKey(id))
		defer lease.Release()
		there, err := run.present(id, s.item, run.m.cache.Generation(entryKey(id)))
		if err != nil {
			return err
		}
		count, write := there.compare(&run.done, s.entry)
		if write {
			if err := run.writeOver(ctx, s.entry, there, lease); err != nil {
				return err
			}
		}
		*count++
		return nil
	})
}

func (run *importing) writeOver(ctx context.Context, entry *ImportedEntry, past presence, lease *cache.Lease) error {
	w := NewPut(entry.ID, entry.Value)
	// A copy without a time is older than anything. A time in the future counts as now.
	w.WrittenAt = min(max(entry.UpdatedAt, 1), float64(time.Now().UnixMicro())/1e6) // guard 19.16
	// guard 19.17
	w.Fenced = true
	w.LosesTies = past.seq == 0 || past.losesTies // if it follows an agent's write, the fence keeps the loser
	// guard 5.15
	w.If = func(newest uint64) bool { return newest == past.seq && !lease.Revoked() }
	return run.write(ctx, w)
}

type presence struct {
	known, exists bool
	seq           uint64 // of the pending write; 0 if none
	value         string
	updatedAt     float64 // Unix seconds
	losesTies     bool    // of the pending write
}

// present returns the journal's state of an entry, or else upstream's answer, which may be nil. A pending
// write is as old as its caller says, but not older than the entry's copy, which it follows or restores. A
// copy of an entry that is known to be deleted upstream does not count.
func (run *importing) present(id journal.ID, said *cache.Item, g cache.Generation) (p presence, err error) {
	if w, pending, err := run.m.journal.Newest(id); err != nil {
		return p, err
	} else if pending {
		past, err := run.m.journal.Fence.Base(id)
		return presence{true, w.Op == journal.Put, w.Seq, w.Value, max(w.WrittenAt, past.UpdatedAt), w.LosesTies}, err
	}
	state, err := run.m.journal.Lookup(id)
	_, deleted := run.m.view.shows(id)
	switch {
	case err != nil:
		return p, err
	case state.Seq != 0: // it was written meanwhile
		return p, journal.ErrChanged
	case state.Kind == journal.Settled && run.m.isDeletedUpstream(id, &state, g), leavesNoTrace(state.Kind) && deleted: // guard 17.35
		return presence{known: true, updatedAt: float64(run.m.view.versionOf(id)) / 1e6}, nil
	case state.Kind == journal.Settled:
		return presence{known: true, exists: true, value: state.Value, updatedAt: state.UpdatedAt}, nil
	case said == nil:
		return p, nil
	}
	p = presence{known: true} // the disk is nearly full: no copy was kept
	p.value, p.updatedAt, p.exists, err = Shown(said)
	return p, err
}

// compare returns the count that an entry adds to, and whether to write it.
func (p *presence) compare(done *Imported, entry *ImportedEntry) (count *int, write bool) {
	switch {
	case !p.known, p.updatedAt == 0 && !p.exists:
		return &done.Written, true
	case p.exists && p.value == entry.Value:
		return &done.Same, false
	case p.updatedAt >= entry.UpdatedAt: // guard 19.15
		return &done.Older, false
	}
	return &done.Written, true
}

func (run *importing) write(ctx context.Context, w journal.NewWrite) error {
	for {
		if err := run.pending.makeRoom(ctx, len(w.Value)); err != nil {
			run.done.Waits = run.whyAhead(w.Namespace)
			return err
		}
		written, err := run.m.store(w)
		if !errors.Is(err, journal.ErrFull) {
			if err == nil {
				run.pending.add(written)
			}
			return err
		}
		if !run.pending.awaitFirst(ctx, importPause) {
			return err
		}
	}
}

func (run *importing) whyAhead(namespace string) string {
	why := fmt.Sprintf("upstream has not taken the last %d entries yet", len(run.pending.writes))
	waits, until := run.m.flusher.Waits(namespace)
	if waits != "" {
		why += ": " + waits
	}
	if waits != "" && !until.IsZero() {
		why += ", until " + until.UTC().Format(time.RFC3339)
	}
	return why
}

const (
	// pendingImportsMost and pendingImportBytes bound an import's pending writes. The rest of the journal is
	// for agents.
	pendingImportsMost = 1000
	pendingImportBytes = 16 << 20
)

type pendingImports struct {
	receipts *journal.Receipts
	writes   []importedWrite // oldest first
	bytes    int
}

type importedWrite struct {
	journal.Receipt
	bytes int
}

func (a *pendingImports) add(w journal.Write) {
	a.writes = append(a.writes, importedWrite{journal.Receipt{ID: w.ID, Seq: w.Seq}, len(w.Value)})
	a.bytes += len(w.Value)
}

func (a *pendingImports) makeRoom(ctx context.Context, bytes int) error {
	for looked := false; len(a.writes) >= pendingImportsMost || len(a.writes) > 0 && a.bytes+bytes > pendingImportBytes; looked = true { // guard 3.33
		if looked && !a.receipts.Await(ctx, &a.writes[0].Receipt) {
			return ctx.Err()
		}
		a.forgetEnded()
	}
	return nil
}

// awaitFirst waits until the oldest write may have left the pending set, but not longer than most. It returns
// false if ctx ends first.
func (a *pendingImports) awaitFirst(ctx context.Context, most time.Duration) bool {
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if len(a.writes) == 0 {
		<-short.Done()
	} else {
		a.receipts.Await(short, &a.writes[0].Receipt)
	}
	a.forgetEnded()
	return ctx.Err() == nil
}

func (a *pendingImports) forgetEnded() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	a.writes = slices.DeleteFunc(a.writes, func(w importedWrite) bool {
		gone := a.receipts.Await(ended, &w.Receipt)
		if gone {
			a.bytes -= w.bytes
		}
		return gone
	})
}
