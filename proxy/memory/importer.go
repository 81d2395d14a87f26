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
	k, err := run.m.look(entry.ID, AnyAge)
	if err != nil || k.freshness == cache.Fresh {
		return askedEntry{entry, k.item}, err
	}
	from := newEntry(run.m, entry.ID, k, false)
	got, err := run.m.fetchFor(k.freshness, from)
	if err != nil {
		return askedEntry{entry, nil}, nil //nolint:nilerr // what is known here decides, and the fence
	}
	return askedEntry{entry, got.item(from.key())}, nil
}

// importOne decides on an entry, and writes it if necessary. If something comes in between, it decides again.
func (run *importing) importOne(ctx context.Context, s askedEntry) error {
	return unlessOvertaken(ctx, func() error {
		lease := run.m.cache.Lease(entryKey(s.entry.ID))
		defer lease.Release()
		k, err := run.m.lookInJournal(s.entry.ID, AnyAge)
		if err != nil {
			return err
		}
		count, write, err := run.compare(s.entry, &k, s.item)
		if write {
			err = run.writeOver(ctx, s.entry, &k.state, lease)
		}
		if err == nil {
			*count++
		}
		return err
	})
}

func (run *importing) writeOver(ctx context.Context, entry *ImportedEntry, past *journal.State, lease *cache.Lease) error {
	w := NewPut(entry.ID, entry.Value)
	// A copy without a time is older than anything. A time in the future counts as now.
	w.WrittenAt = min(max(entry.UpdatedAt, 1), float64(time.Now().UnixMicro())/1e6) // guard 19.16
	// guard 19.17
	w.Fenced = true
	w.LosesTies = past.Seq == 0 || past.LosesTies // if it follows an agent's write, the fence keeps the loser
	// guard 5.15
	w.If = func(newest uint64) bool { return newest == past.Seq && !lease.Revoked() }
	return run.write(ctx, w)
}

// compare returns the count that an entry adds to, and whether to write it. The journal's state decides, or else
// upstream's answer, which may be nil. A pending write is as old as its caller says, but not older than the
// entry's copy, which it follows or restores.
func (run *importing) compare(entry *ImportedEntry, k *known, said *cache.Item) (count *int, write bool, err error) {
	value, updatedAt, exists := k.state.Value, k.state.UpdatedAt, k.state.Kind == journal.Value || k.state.Kind == journal.Settled
	_, deleted := run.m.view.shows(entry.ID)
	switch {
	case k.state.Seq != 0:
		past, err := run.m.journal.Fence.Base(entry.ID)
		if err != nil {
			return nil, false, err
		}
		updatedAt = max(k.state.MadeAt, past.UpdatedAt)
	case leavesNoTrace(k.state.Kind) && deleted: // guard 17.35
		updatedAt = float64(run.m.view.versionOf(entry.ID)) / 1e6
	case leavesNoTrace(k.state.Kind) && said != nil: // the disk is nearly full: no copy was kept
		if value, updatedAt, exists, err = valueOf(said); err != nil {
			return nil, false, err
		}
	}
	switch {
	case updatedAt == 0 && !exists:
		return &run.done.Written, true, nil
	case exists && value == entry.Value:
		return &run.done.Same, false, nil
	case updatedAt >= entry.UpdatedAt: // guard 19.15
		return &run.done.Older, false, nil
	}
	return &run.done.Written, true, nil
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
