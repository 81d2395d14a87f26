package memory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const (
	// restoredAtOnce is the number of copies that one step of a restoration looks at.
	restoredAtOnce = 256
	// restoredTogether is how many of them are journaled at the same time, so that they share syncs.
	restoredTogether = 32
	// restoredBytes bounds the pending bytes of a namespace that is restored. The rest of the journal is for agents.
	restoredBytes = 16 << 20
	// restorePause is the Retry-After for a caller who wants more restored.
	restorePause = 5 * time.Second
	// beforeAll is in Unix seconds. The fence takes it as the copy's time: any state upstream is later.
	beforeAll = 1
)

// Restored counts the writes of a restoration by their outcome.
type Restored struct {
	Restored int // upstream has them again
	Kept     int // upstream held another state, which stays
	Failed   int // upstream refused them
	Uncopied int // upstream had lost them, and there was no copy
}

// Restore journals a write for each entry of a namespace with data loss that upstream's list lacks and of which there is a
// copy. If upstream holds the entry after all, its state stays. Once Restore has journaled all of them, it believes that
// list. more says that there was no room for all of them: the namespace still has data loss, and the same call goes on.
//
// Among the writes are those that an earlier call has journaled and upstream does not have yet.
//
// With anyhow, Restore does not need upstream's list: without it, it journals a write for each copy.
//
// Restore adds to counts.Uncopied the entries that it cannot restore, once it believes that upstream lacks them.
func (m *Memory) Restore(ctx context.Context, namespace string, anyhow bool, counts *Restored) (written []journal.Write, more bool, err error) {
	m.lister.note(namespace)
	earlier, err := m.givenBack(namespace)
	if err != nil {
		return nil, false, err
	}
	lost := m.view.hasDataLoss(namespace)
	rows, complete, _, err := m.Look(ctx, namespace, nil)
	known := err == nil
	if !known && (!anyhow || !isUnavailable(err)) { // guard 9.62
		return nil, false, err
	}
	// A list that may lack keys may end the data loss, but does not show that upstream has them again.
	lost = m.view.hasDataLoss(namespace) || lost && !complete // guard 9.98
	if !lost && !anyhow {
		return earlier, false, nil
	}
	written = earlier
	giveBack := func(rows []journal.Row) (err error) {
		var some []journal.Write
		some, more, err = m.giveBack(namespace, rows)
		written = append(written, some...)
		return err
	}
	if known {
		var believed *journal.ListingFill
		_, _, _, err = m.Look(ctx, namespace, func(fill *journal.ListingFill, rows []journal.Row) error {
			fill.BelieveAbsences()
			believed = fill
			return giveBack(rows) // guard 9.105
		})
		if err == nil {
			counts.Uncopied += believed.Uncopied()
		}
	}
	if !known || anyhow && !more && isUnavailable(err) {
		if err = giveBack(rows); err == nil {
			err = m.journal.Trust.Decided(namespace)
		}
	}
	if more && len(written) > 0 {
		err = nil
	}
	return written, more, err
}

// givenBack returns the pending writes of a namespace that lose to any state that upstream holds.
func (m *Memory) givenBack(namespace string) (pending []journal.Write, err error) {
	err = m.journal.VisitPending(namespace, func(p journal.Pending) {
		if p.LosesTies { // guard 9.103
			pending = append(pending, journal.Write{ID: p.ID, Seq: p.Seq, Op: p.Op})
		}
	})
	return pending, err
}

// errRestoresMuch leaves the rest of the journal to agents.
var errRestoresMuch = wire.Unavailable(restorePause, "too much of the namespace is pending to restore more of it: try again once upstream has taken that")

// giveBack journals the copies of entries that upstream lacks, or holds in an older version if versions can be compared
// by time. more says that there was no room for all of them, and err why.
func (m *Memory) giveBack(namespace string, rows []journal.Row) (written []journal.Write, more bool, err error) {
	held := make(map[string]float64, len(rows))
	for _, row := range rows {
		held[row.Key] = row.UpdatedAt
	}
	for after := ""; ; {
		if m.journal.Stats().Namespaces[namespace].PendingBytes >= restoredBytes { // guard 3.34
			return written, true, errRestoresMuch
		}
		copies, err := m.journal.Trust.Copies(namespace, after, restoredAtOnce)
		if err != nil || len(copies) == 0 {
			return written, false, err
		}
		after = copies[len(copies)-1].Key
		var mu sync.Mutex // guards written
		var g errgroup.Group
		g.SetLimit(restoredTogether)
		for _, c := range copies {
			at, isHeld := held[c.Key]
			isOlder := m.exact && micros(at) < micros(c.UpdatedAt)
			if isHeld && !isOlder { // guard 17.28
				continue
			}
			g.Go(func() error {
				w, err := m.writeAgain(journal.ID{Namespace: namespace, Key: c.Key})
				if errors.Is(err, journal.ErrChanged) {
					return nil // something newer is pending
				}
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					written = append(written, w)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return written, errors.Is(err, journal.ErrFull) || IsNamespaceFull(err), err // guard 9.106
		}
	}
}

// writeAgain journals the settled copy of an entry as a write that gives way to any state that upstream does hold.
func (m *Memory) writeAgain(id journal.ID) (journal.Write, error) {
	lease := m.cache.Lease(entryKey(id))
	defer lease.Release()
	state, err := m.journal.Lookup(id)
	if err != nil {
		return journal.Write{}, err
	}
	if state.Kind != journal.Settled {
		return journal.Write{}, journal.ErrChanged
	}
	w := journal.NewWrite{ // guard 17.30
		ID: id, Op: journal.Put, Value: state.Value, ListBytes: state.ListBytes, Author: state.Author,
		WrittenAt: beforeAll, LosesTies: true, Fenced: true,
		If: func(newest uint64) bool { return newest == 0 && !lease.Revoked() },
	}
	if state.MadeAt != 0 { // its version names its time
		w.WrittenAt = state.MadeAt
	}
	// guard 17.31
	if m.exact { // upstream gets the copy back with its own time: another host's later write beats it
		w.WrittenAt, w.At = state.UpdatedAt, state.UpdatedAt
	}
	return m.journal.Append(w)
}

// RestoreEntry journals the last value of an entry that upstream has ceased to hold, as a write over nothing: whatever
// upstream holds after all stays. It journals nothing if the entry is there, or has been deleted here since. In a namespace with
// data loss, it journals the copy.
func (m *Memory) RestoreEntry(id journal.ID) (written []journal.Write, err error) {
	w, err := m.writeGone(id)
	if errors.Is(err, journal.ErrChanged) && m.view.hasDataLoss(id.Namespace) {
		w, err = m.writeAgain(id)
	}
	if !errors.Is(err, journal.ErrChanged) {
		return []journal.Write{w}, err
	}
	w, pending, err := m.journal.Newest(id)
	if givesWay := w.LosesTies || w.Over != nil; !pending || !givesWay { // guard 9.104
		return nil, err
	}
	return []journal.Write{w}, err
}

// writeGone journals the last value of an entry that is gone. Its error is [journal.ErrChanged] if the entry is not gone.
func (m *Memory) writeGone(id journal.ID) (journal.Write, error) {
	lease := m.cache.Lease(entryKey(id))
	defer lease.Release()
	state, err := m.journal.Lookup(id)
	if err != nil {
		return journal.Write{}, err
	}
	versions, err := m.versionsHere(id)
	if err != nil {
		return journal.Write{}, err
	}
	versions = slices.DeleteFunc(versions, func(v Version) bool {
		return v.Op == journal.Delete && v.Shown || v.lost() || v.State == journal.PastDead
	})
	if !leavesNoTrace(state.Kind) || len(versions) == 0 || versions[0].State != journal.PastGone { // guard 9.101
		return journal.Write{}, journal.ErrChanged
	}
	w := NewPut(id, versions[0].Value)
	w.Author, w.Fenced, w.Over = versions[0].Author, true, &journal.Base{Known: true, Content: journal.ContentOf(journal.Delete, "")} // guard 9.102
	w.If = func(newest uint64) bool { return newest == 0 && !lease.Revoked() }
	return m.journal.Append(w)
}

// AwaitRestored waits until none of the writes is pending, and counts their outcomes. If ctx ends first, left is how many
// are pending.
func (m *Memory) AwaitRestored(ctx context.Context, written []journal.Write, counts *Restored) (left int, err error) {
	for i, w := range written {
		if !m.journal.Receipts.Await(ctx, &journal.Receipt{ID: w.ID, Seq: w.Seq, Op: w.Op}) {
			return len(written) - i, nil
		}
		receipt, err := m.journal.Receipts.Read(ctx, w.Seq)
		if err != nil && !errors.Is(err, journal.ErrNoReceipt) {
			return len(written) - i, err
		}
		switch receipt.State {
		case journal.ReceiptSettled:
			counts.Restored++
		case journal.ReceiptDead:
			counts.Failed++
		default:
			counts.Kept++
		}
	}
	return 0, nil
}

// Look asks upstream for a namespace's list and stores it. complete says that upstream has no more keys. decide, if not
// nil, says what a person has decided about the list, before it is stored. forgotten counts the copies that are dropped.
func (m *Memory) Look(ctx context.Context, namespace string, decide func(*journal.ListingFill, []journal.Row) error) (
	rows []journal.Row, complete bool, forgotten int, err error,
) {
	for {
		fill := m.journal.BeginListing(namespace)
		rows, complete, err := m.upstream.List(ctx, namespace, false)
		if err != nil {
			fill.Cancel()
			return nil, false, 0, m.inTime(ctx, err)
		}
		if decide != nil {
			if err := decide(fill, rows); err != nil {
				fill.Cancel()
				return nil, false, 0, err
			}
		}
		err = fill.Commit(rows, complete)
		if !errors.Is(err, journal.ErrChanged) { // guard 9.76
			return rows, complete, fill.Dropped(), err
		}
		if err := ctx.Err(); err != nil {
			return nil, false, 0, m.inTime(ctx, err)
		}
	}
}

func (m *Memory) inTime(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return m.upstream.TooLong()
	}
	return err
}

// namespacesAtOnce bounds the names that are read at a time.
const namespacesAtOnce = 1000

// DistrustAll records data loss for every known namespace. The caller lets upstream answer only afterwards.
func (m *Memory) DistrustAll() error {
	for after := ""; ; {
		names, err := m.journal.Keys.Namespaces(after, namespacesAtOnce, func(string) bool { return true })
		if err != nil || len(names) == 0 {
			return err
		}
		for _, namespace := range names {
			if err := m.distrust(namespace); err != nil {
				return err
			}
		}
		after = names[len(names)-1]
	}
}

// distrust keeps the local state of a namespace, even where upstream lacks it.
func (m *Memory) distrust(namespace string) error {
	for {
		fill := m.journal.BeginListing(namespace)
		fill.Distrust()
		if err := fill.Commit(nil, true); !errors.Is(err, journal.ErrChanged) {
			return err
		}
	}
}
