package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const (
	// importTime is about how long one request to import waits and works: a caller that has more sends
	// it in further requests. It bounds how long a caller does not know that its import waits.
	importTime = 10 * time.Second
	// importPause is the wait for room in a journal that is full of other writes.
	importPause = time.Second
)

// importer takes entries of a file in as writes. Each is a copy of a state from some time: it
// gives way to whatever is newer, here and upstream. An entry that is there as the file has it
// costs nothing. So to import a file again does only what is left.
//
// An import leaves the journal and the quota to the agents: only so many imported writes are
// pending at a time.
type importer struct {
	*memory
	bodies   *wire.Bodies
	measures *measures
	turn     chan struct{} // held by the one import under way
	ahead    *ahead        // guarded by turn
}

func newImporter(m *memory, bodies *wire.Bodies, counts *measures) *importer {
	return &importer{memory: m, bodies: bodies, measures: counts, turn: make(chan struct{}, 1), ahead: &ahead{receipts: m.journal.Receipts}}
}

// answer answers 200 when all lines are done. A line that cannot be imported refuses the request,
// and nothing of it is done.
func (im *importer) answer(w http.ResponseWriter, r *http.Request) error {
	namespace, err := namespaceParameter(r)
	if err != nil {
		return err
	}
	if err := allow(w, importTime); err != nil {
		return err
	}
	ctx, cancel := im.tasks.patience(r.Context(), importTime)
	defer cancel()
	select {
	case im.turn <- struct{}{}:
		defer func() { <-im.turn }()
	case <-ctx.Done():
		return writeLater(w, http.StatusServiceUnavailable, api.Imported{Detail: "another import is under way: try again"})
	}
	body, room, refusal := im.bodies.Read(w, r)
	if refusal != nil {
		return refusal
	}
	defer room.Release()
	entries, lines, err := parseImport(body, namespace)
	if err != nil {
		return err
	}
	run := &importing{importer: im}
	run.done.Lines = lines
	err = run.take(ctx, entries)
	if err != nil && len(entries) > run.taken {
		run.done.Lines = entries[run.taken].number - 1
	}
	return run.finish(ctx, w, err)
}

// writeLater answers a request of which some is left.
func writeLater(w http.ResponseWriter, status int, doc api.Imported) error {
	w.Header().Set("Retry-After", "1")
	return writeDocument(w, status, doc)
}

// importing is one import under way.
type importing struct {
	*importer
	taken int // entries
	done  api.Imported
	waits string // what the import waits for
}

func (run *importing) finish(ctx context.Context, w http.ResponseWriter, err error) error {
	switch {
	case err == nil:
		return writeDocument(w, http.StatusOK, run.done)
	case isNamespaceFull(err):
		run.done.Detail = fmt.Sprintf("line %d cannot be imported: %v", run.done.Lines+1, err)
		return writeDocument(w, http.StatusRequestEntityTooLarge, run.done)
	case errors.Is(err, journal.ErrFull):
		run.done.Detail = "the import waits: " + err.Error()
		return writeLater(w, http.StatusInsufficientStorage, run.done)
	case ctx.Err() == nil:
		return err
	}
	run.done.Detail = "the import goes on with the lines that are left: send them again"
	if run.waits != "" {
		run.done.Detail = "the import waits: " + run.waits
	}
	return writeLater(w, http.StatusServiceUnavailable, run.done)
}

// sighted is what upstream has said of an entry, if it was asked.
type sighted struct {
	line *numbered
	item *cache.Item // nil if it was not asked, or did not answer
}

// take takes the entries in one after the other. Upstream is asked for some of them meanwhile.
func (run *importing) take(ctx context.Context, entries []numbered) error {
	produce := func(ctx context.Context, add func(func() (sighted, error)) error) error {
		for i := range entries {
			if err := add(func() (sighted, error) { return run.sight(&entries[i]) }); err != nil {
				return err
			}
		}
		return nil
	}
	return inOrder(ctx, run.fetches.logger, produce, ctx.Err, func(s sighted) error {
		err := run.takeOne(ctx, s)
		if err == nil {
			run.taken++
		}
		return err
	})
}

// sight asks upstream for an entry if what is known of it here is not fresh.
func (run *importing) sight(line *numbered) (sighted, error) {
	id := journal.ID{Namespace: line.Namespace, Key: line.Key}
	found, err := run.findEntry(id, anyAge)
	if err != nil || found.freshness == cache.Fresh {
		return sighted{line, found.item}, err
	}
	from := newEntry(run.memory, id, found.generation, false)
	got, err := run.fetchFor(found.freshness, from)
	if err != nil {
		return sighted{line, nil}, nil //nolint:nilerr // what is known here decides, and the fence
	}
	return sighted{line, got.item(from.key())}, nil
}

// takeOne decides on an entry, and writes it unless something came in between: then it decides
// anew.
func (run *importing) takeOne(ctx context.Context, s sighted) error {
	for {
		err := run.tryOne(ctx, s)
		if !errors.Is(err, journal.ErrChanged) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (run *importing) tryOne(ctx context.Context, s sighted) error {
	id := journal.ID{Namespace: s.line.Namespace, Key: s.line.Key}
	lease := run.cache.Lease(entryKey(id))
	defer lease.Release()
	there, err := run.whatIsThere(id, s.item, run.cache.Generation(entryKey(id)))
	if err != nil {
		return err
	}
	count, write := there.compare(&run.done, &s.line.ImportLine)
	if write {
		if err := run.writeOver(ctx, s.line, there, lease); err != nil {
			return err
		}
	}
	*count++
	return nil
}

// writeOver writes an entry over what is there, if that is there still.
func (run *importing) writeOver(ctx context.Context, line *numbered, past presence, lease *cache.Lease) error {
	w := newPut(journal.ID{Namespace: line.Namespace, Key: line.Key}, line.Value)
	// A copy of no time is older than anything. One from the future is of now.
	w.WrittenAt = min(max(line.UpdatedAt, 1), float64(time.Now().UnixMicro())/1e6) // guard 19.16
	// guard 19.17
	w.Fenced = true
	w.LosesTies = past.seq == 0 // with a write of an agent's before it, the loser is kept
	// guard 5.15
	w.If = func(newest uint64) bool { return newest == past.seq && !lease.Revoked() }
	return run.write(ctx, w)
}

// presence is what is there of an entry.
type presence struct {
	known, exists bool
	seq           uint64 // of the pending write
	value         string
	updatedAt     float64 // Unix seconds
}

// whatIsThere goes by the journal, and where that knows nothing by what upstream has said, nil if
// nothing. A copy of an entry that upstream is known not to hold any more is not there.
func (run *importing) whatIsThere(id journal.ID, said *cache.Item, g cache.Generation) (p presence, err error) {
	state, err := run.journal.Lookup(id)
	_, deleted := run.coherence.shows(id)
	switch {
	case err != nil:
		return p, err
	case state.Kind == journal.Gone:
		return presence{known: true, seq: state.Seq, updatedAt: state.UpdatedAt}, nil
	case state.Kind == journal.Settled && isGone(run.memory, id, &state, g), leavesNoTrace(state.Kind) && deleted: // guard 17.35
		return presence{known: true, updatedAt: float64(run.coherence.shownAt(id)) / 1e6}, nil
	case state.Kind == journal.Value, state.Kind == journal.Settled:
		return presence{true, true, state.Seq, state.Value, state.UpdatedAt}, nil
	case said == nil:
		return p, nil
	case said.Body == nil:
		return presence{known: true}, nil
	}
	var shown struct { // no copy of it is kept: the disk is nearly full
		Value     string
		UpdatedAt float64 `json:"updated_at"`
	}
	err = json.Unmarshal(said.Body, &shown)
	return presence{known: true, exists: true, value: shown.Value, updatedAt: shown.UpdatedAt}, err
}

// compare says which count an entry belongs to, and whether it is to be written.
func (p *presence) compare(done *api.Imported, line *ImportLine) (count *int, write bool) {
	switch {
	case !p.known, p.updatedAt == 0 && !p.exists:
		return &done.Written, true
	case p.exists && p.value == line.Value:
		return &done.Same, false
	case p.updatedAt >= line.UpdatedAt: // guard 19.15
		return &done.Older, false
	}
	return &done.Written, true
}

// write journals an entry as soon as there is room.
func (run *importing) write(ctx context.Context, w journal.NewWrite) error {
	for {
		if err := run.ahead.makeRoom(ctx, len(w.Value)); err != nil {
			run.waits = run.whyAhead(w.Namespace)
			return err
		}
		written, err := run.store(w)
		if !errors.Is(err, journal.ErrFull) {
			if err == nil {
				run.measures.imported.Add(1)
				run.ahead.add(written)
			}
			return err
		}
		if !run.ahead.awaitFirst(ctx, importPause) {
			return err
		}
	}
}

func (run *importing) whyAhead(namespace string) string {
	why := fmt.Sprintf("upstream has not taken the last %d entries yet", len(run.ahead.writes))
	waits, until := run.flusher.Waits(namespace)
	if waits != "" {
		why += ": " + waits
	}
	if waits != "" && !until.IsZero() {
		why += ", until " + until.UTC().Format(time.RFC3339)
	}
	return why
}
