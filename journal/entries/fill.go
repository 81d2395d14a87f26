package entries

import (
	"errors"
	"fmt"
	"slices"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// Fill records upstream's answer for an entry (nil if upstream does not hold it) as its settled copy
// and in the namespace's listing, and returns the entry's state. It calls valid, in the order of all
// writes, to check that the answer still counts. If the entry was written or settled since the request,
// valid returns false, and Fill drops the answer with [queue.ErrChanged] (contract 8). So it does while a write to the entry
// waits for its sync, which no valid knows of: the write's condition may have been about the state before. Fill's changes
// are durable when it returns, and readers do not see them before (contract 7). If an answer changes
// nothing, Fill notes it in memory only, so that reads do not wear out the disk.
//
// If Fill rejects an answer (see [State.Rejection]), it changes nothing and returns the known state,
// which becomes no fresher.
//
// With Options.Exact or Options.Named, Fill also drops an answer with [queue.ErrChanged] if a write to the entry
// is pending. The copy is the version that the write was based on, and stays until the write leaves the
// pending set (contract 17).
//
// While the disk is nearly full, Fill keeps no copy of a value that is not on the disk yet.
func (e *Entries) Fill(id ID, o *Observation, valid func() bool, options ...FillOption) (State, error) {
	if err := e.store.Acquire(); err != nil {
		return State{}, err
	}
	defer e.store.Release()
	e.store.Look()
	if e.basesStay(id.Namespace) {
		if err := e.queue.FaultIn(id); err != nil { // Fill looks for pending writes in the index
			return State{}, err
		}
	}
	return (&filling{
		Entries: e, id: id, valid: valid, noNewCopy: slices.Contains(options, NoNewCopy), listed: slices.Contains(options, Listed),
	}).run(o)
}

// run makes the change. It returns [queue.ErrChanged] if the answer no longer counts.
func (f *filling) run(o *Observation) (State, error) {
	f.unlock = f.Lock(f.id.Namespace)
	defer f.unlock()
	if err := f.prepare(o); err != nil {
		return State{}, fmt.Errorf("keeping upstream's answer for %s: %w", f.id, err)
	}
	if f.rejection != NotRejected && f.setCopy == nil {
		return f.reject()
	}
	err := f.store.Update(f)
	f.Reveal()
	if err == nil && o == nil {
		err = f.boundLosses()
	}
	if err != nil {
		return State{}, err
	}
	if f.rejection != NotRejected {
		return f.reject()
	}
	return f.state, nil
}

// FillOption changes what [Entries.Fill] keeps of an answer.
type FillOption uint8

// NoNewCopy tells Fill to make no new copy. The answer still updates an existing copy and the listing's
// row (contract 7).
const NoNewCopy FillOption = 1

// Listed tells Fill that the caller has asked for upstream's list because of [Trust.NeedsProof]. An absence then
// counts only if the list lacks the entry, too: otherwise upstream contradicts itself, and the copy is the answer.
const Listed FillOption = 2

// takeBack prepares that the newest state becomes the settled copy again, if that is what an answer was rejected
// for. It returns [ErrOlder] if its value is gone.
func (f *filling) takeBack(past *settledCopy) error {
	switch {
	case !past.recalled:
		return nil
	case !past.intact:
		f.Trust.heard(f.id.Namespace, 1)
		return ErrOlder // guard 23.36
	}
	f.row = &rowChange{stripe: f.stripe(f.id.Namespace)} // the listing is of upstream's, and stays
	f.state = settledState(past.Observation, past.confirmedAt)
	f.setCopy = func(tx *store.Tx) {
		if version := f.versionOf(past, past.Value); version != 0 { // else it has just been removed
			f.set(tx, f.id, &past.Observation, past.confirmedAt, version)
		}
	}
	return nil
}

// reject returns the known state, once it is durable.
func (f *filling) reject() (State, error) {
	stands := false
	f.store.InOrder(func(record.Totals) { stands = f.valid() })
	f.unlock()
	if !stands { // guard 8.9
		return State{}, queue.ErrChanged
	}
	if f.rejection == OlderAnswer {
		f.Trust.heard(f.id.Namespace, 1)
	}
	for {
		state, done, err := f.DurableState(f.id)
		switch {
		case err != nil:
			return State{}, err
		case !done:
		case state.Kind != Settled:
			return State{}, queue.ErrChanged
		default:
			state.Rejection = f.rejection // guard 7.25
			return state, nil
		}
	}
}

// filling is the change that records upstream's answer.
type filling struct {
	*Entries
	queue.Hiding
	id     ID
	valid  func() bool
	unlock func() // releases the copies lock

	noNewCopy   bool
	listed      bool
	rejection   Rejection
	confirmedAt float64 // Unix seconds
	state       State
	setCopy     func(*store.Tx) // nil if the settled copy stays unchanged
	row         *rowChange
	gives       *settledCopy // the copy that goes, as upstream holds nothing of the entry
}

// prepare compares the answer with the known state, and prepares the changes. The caller holds the
// copies lock.
func (f *filling) prepare(o *Observation) error {
	past, err := f.last(f.id) // guard 23.35
	if err != nil {
		return err
	}
	if o == nil && past.recalled { // only a copy stays when upstream has lost it
		past.intact, past.gone = false, false
	}
	if f.rejection, err = f.judge(past, o); f.rejection != NotRejected || err != nil {
		return errors.Join(err, f.takeBack(&past))
	}
	if o == nil {
		switch {
		case past.kept:
			f.gives = &past
			f.setCopy = func(tx *store.Tx) { f.gone(tx, f.id, &past, store.UnixNow()) }
		case past.recalled && !f.Trust.isSuspect(f.id.Namespace):
			f.setCopy = func(tx *store.Tx) { f.dropNewest(tx, f.id) }
		}
		if f.Trust.isSuspect(f.id.Namespace) {
			f.row = &rowChange{stripe: f.stripe(f.id.Namespace)} // keep the row: it may be all that is left of the entry
			_, f.state.Listed, _, err = readListed(f.Entries, f.store.DB(), f.id)
			return err
		}
		f.row, err = f.bringRow(f.id.Namespace, knownRow{Row: Row{Key: f.id.Key}, gone: true})
		return err
	}
	now := *o
	now.UpdatedAt = timeOf(f.Entries, now.UpdatedAt, past.UpdatedAt) // guard 19.6
	now.AbsentAt = past.AbsentAt
	if past.Value == o.Value {
		now.MadeAt = max(o.MadeAt, past.MadeAt)
	}
	// guard 7.23
	if now.Origin = past.Origin; past.Value != o.Value || !past.Origin.NewerThan(o.UpdatedAt) || past.Origin.At == 0 {
		now.Origin = past.Origin.Shown(past.Value == o.Value, o.UpdatedAt)
	}
	if past.intact && past.Value == o.Value {
		now.Author, now.Host = past.Author, past.Host // the copy's version stays
	}
	f.confirmedAt = store.UnixNow()
	f.state = settledState(now, f.confirmedAt)
	stored := past.intact && past.Value == now.Value                                       // guard 17.65
	keep := (stored || !f.store.Low(int64(len(now.Value)))) && (past.kept || !f.noNewCopy) // guard 7.21
	switch {
	// guard 3.21, 19.13
	case past.intact && !past.recalled && past.Observation == now && past.confirmedAt <= f.confirmedAt: // unchanged, and the clock was not set back
	case keep:
		f.setCopy = func(tx *store.Tx) {
			version := f.versionOf(&past, now.Value)
			if f.set(tx, f.id, &now, f.confirmedAt, version); version == 0 && !past.recalled {
				f.unname(&past)
			}
		}
	case past.kept:
		f.setCopy = func(tx *store.Tx) {
			tx.Delete(record.EntryKey(record.SettledPrefix, f.id))
			f.unname(&past)
			f.setNewest(tx, f.id, &now, f.confirmedAt, tx.TakeSeq())
		}
	case f.keepsNewest(f.id.Namespace) && (past.MadeAt != now.MadeAt || past.UpdatedAt != now.UpdatedAt):
		f.setCopy = func(tx *store.Tx) { f.setNewest(tx, f.id, &now, f.confirmedAt, tx.TakeSeq()) }
	}
	f.row, err = f.bringRow(f.id.Namespace, knownRow{
		Row:     Row{Key: f.id.Key, ListBytes: now.ListBytes, UpdatedAt: now.UpdatedAt, Origin: now.Origin},
		shownAt: o.UpdatedAt,
		foreign: past.Origin.Seq != 0 && now.Origin.Seq == 0,
	})
	return err
}

// Fill checks that the answer still counts. It notifies the subscriber even if nothing changes on disk,
// because earlier answers are outdated.
func (f *filling) Fill(tx *store.Tx) error {
	// guard 8.1, 8.10, 17.33
	if !f.valid() || f.queue.IsComing(f.id) || f.keepsBase(f.id) {
		// guard 16.27
		f.unlock() // a refused change also waits for a sync
		return queue.ErrChanged
	}
	if f.gives != nil {
		if err := f.lookAgain(tx, f.id, f.gives); err != nil {
			return err
		}
	}
	if f.setCopy != nil {
		f.setCopy(tx)
	} else if f.state.Kind == Settled {
		f.seen.confirm(f.id, f.confirmedAt) // guard 9.14
	}
	f.row.fill(tx)
	if f.setCopy == nil && !f.row.changes() {
		defer f.unlock()
		f.readers.Lock()
		defer f.readers.Unlock()
		f.readers.Changed(queue.Change{ID: f.id}) // guard 7.13, 8.6
	}
	return nil
}

// keepsBase reports whether an entry's copy must stay because a pending write is based on it (see
// Options.Exact and Options.Named). The caller is in the store's order.
func (e *Entries) keepsBase(id ID) bool {
	return e.basesStay(id.Namespace) && e.queue.IsPending(id)
}

// basesStay reports whether an answer of upstream leaves the copies of a namespace that pending writes are based on.
func (e *Entries) basesStay(namespace string) bool { return e.opts.Exact || e.keepsNewest(namespace) }

// Applied makes readers wait until the change is durable.
func (f *filling) Applied() {
	f.readers.Changed(queue.Change{ID: f.id})
	f.Hide(f.readers, f.id, ID{Namespace: f.id.Namespace}) // guard 7.6
	f.unlock()
}
