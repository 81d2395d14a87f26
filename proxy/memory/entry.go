package memory

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

func entryKey(id journal.ID) cache.Key {
	return cache.Key{Namespace: id.Namespace, Key: id.Key}
}

// look returns what is known of an entry, for a reader with these directives. The cache's answer is enough if
// it is fresh, or if the journal has no newer one.
func (m *Memory) look(id journal.ID, d Directives) (known, error) {
	m.lister.note(id.Namespace)
	item, generation := m.cache.Get(entryKey(id))
	k := known{item: item, generation: generation}
	m.assess(id.Namespace, d, &k)
	if k.freshness == cache.Fresh || item != nil && item.Body != nil && !m.view.mayRefresh(item) {
		return k, nil
	}
	k, err := m.lookInJournal(id, d)
	if k.disk && !k.item.Outdated {
		k.item = m.cache.Put(entryKey(id), k.generation, *k.item) // guard 8.5
	}
	return k, err
}

// lookInJournal is look, and always reads the journal. It does not cache what it finds there.
func (m *Memory) lookInJournal(id journal.ID, d Directives) (known, error) {
	item, generation := m.cache.Get(entryKey(id))
	state, err := m.journal.Lookup(id)
	if err != nil {
		return known{}, err
	}
	k := m.compared(id, d, item, generation, &state)
	if k.deleted { // guard 7.33
		if err := m.dropDeleted(id); err != nil {
			return known{}, err
		}
		return m.lookInJournal(id, d)
	}
	return k, nil
}

// compared returns what a look has shown: the cache's answer at a generation, and then the journal's state.
func (m *Memory) compared(id journal.ID, d Directives, item *cache.Item, generation cache.Generation, state *journal.State) known {
	k := m.view.compare(id, state, item)
	k.generation, k.state, k.inJournal = generation, *state, true
	k.disk = k.item != nil && k.item != item
	m.assess(id.Namespace, d, &k)
	return k
}

// lookOrAsk returns what is known of an entry, with the answer to a GET. It asks upstream for that if necessary. changes is
// 1 if the journal then took upstream's answer, which counts as a change of the entry, and 0 otherwise.
func (m *Memory) lookOrAsk(id journal.ID) (k known, changes int64, err error) {
	if k, err = m.lookInJournal(id, AnyAge); err != nil || k.freshness <= cache.Stale {
		return k, 0, err
	}
	r, err := m.askUpstream(AnyAge, k, newEntry(m, id, k, false))
	k.item = r.item
	switch {
	case err != nil:
		return known{}, 0, err // guard 9.2
	case r.Source >= FromUpstream:
		return k, 1, nil
	case r.Source == FromFallback, r.Source == FromAssumed, r.Source == FromDataLoss, r.Source == FromOlder:
		return k, 0, nil
	}
	return known{}, 0, errOvertaken // the next look finds the write that came in
}

// newest returns the newer of the journal's state and a cached answer; nil if neither answers. The journal
// does not keep upstream's 404s. So a cached 404 may be newer than a listing without the entry, unless a
// later listing has the entry.
func newest(id journal.ID, state *journal.State, cached *cache.Item) *cache.Item {
	made, ok := entryItem(id, *state)
	made.Outdated = state.Outdated
	switch {
	case ok && (state.Kind != journal.Absent || cached == nil || cached.ConfirmedAt.Before(made.ConfirmedAt)):
		return &made
	case state.Listed: // guard 7.20
		return nil
	}
	return cached
}

// entryItem makes a state's answer. ok is false if the state is Unknown.
func entryItem(id journal.ID, state journal.State) (item cache.Item, ok bool) {
	switch state.Kind {
	case journal.Unknown:
		return cache.Item{}, false
	case journal.Gone:
		return cache.Item{}, true
	case journal.Absent:
		return cache.Item{ConfirmedAt: state.ConfirmedAt}, true // guard 9.21
	}
	e := wire.Entry{
		Namespace: id.Namespace, Key: id.Key, Value: state.Value,
		CreatedAt: state.CreatedAt, UpdatedAt: state.UpdatedAt,
	}
	return cache.Item{Body: e.AppendJSON(nil), Tag: [1]string{tagOf(&state)}, ConfirmedAt: state.ConfirmedAt}, true
}

// entry is a resource: an entry that had no pending write when its reader looked.
type entry struct {
	m      *Memory
	id     journal.ID
	known  known // at the reader's look
	unkept bool  // keep no copy of the answer
	// version is the time, in microseconds, of the version in the view when the read began; 0 without a view.
	// An older answer does not count.
	version int64
}

func newEntry(m *Memory, id journal.ID, k known, unkept bool) *entry {
	return &entry{m, id, k, unkept, m.view.versionOf(id)}
}

func (e *entry) key() cache.Key { return entryKey(e.id) }

// name separates readers whose answer is not kept from the others. It also separates a reader that knows of a
// version from a request that began before that version was known (contract 7).
func (e *entry) name() string {
	name := e.id.String()
	if e.version != 0 {
		name += " since " + strconv.FormatInt(e.version, 10)
	}
	if e.unkept {
		name += " unkept"
	}
	return name
}

func (e *entry) ask(ctx context.Context, waitOutOutage bool) (accept func() (fetched, error), err error) {
	asked := time.Now()
	a, err := e.askOnce(ctx, waitOutOutage)
	if err != nil { // guard 9.1
		return nil, err
	}
	listed := false
	if _, deleted := e.m.view.shows(e.id); a.seen == nil && !a.overtaken && !deleted {
		if listed, err = e.checkList(waitOutOutage); err != nil { // guard 9.35
			a.lease.Release()
			return nil, err
		}
	}
	// guard 9.37
	if listed { // which may have dropped the copy: the entry is asked for again
		a.lease.Release()
		if a, err = e.askOnce(ctx, waitOutOutage); err != nil {
			return nil, err
		}
	}
	return func() (fetched, error) {
		defer a.lease.Release()
		if a.overtaken {
			return e.overtaken(asked)
		}
		return e.accept(a.seen, listed, a.lease, asked)
	}, nil
}

// leased is upstream's answer, and the lease under which it was asked for.
type leased struct {
	seen      *journal.Observation
	lease     *cache.Lease
	overtaken bool // a pending write is newer: upstream was not asked
}

// askOnce protects the answer in two ways. It takes a lease on the entry before it asks: the journal drops the
// answer if the entry was written or settled after upstream may have made it. A write that was pending before
// the lease is newer than any answer: askOnce compares generations to see whether one came since the reader
// looked.
func (e *entry) askOnce(ctx context.Context, waitOutOutage bool) (a leased, err error) {
	a.lease = e.m.cache.Lease(e.key())
	if e.m.cache.Generation(e.key()) != e.known.generation {
		e.known.state, err = e.m.journal.Lookup(e.id)
		e.known.inJournal, a.overtaken = true, e.known.state.Seq != 0 // guard 8.4
	}
	if err == nil && !a.overtaken {
		a.seen, err = e.get(ctx, waitOutOutage)
	}
	if err != nil {
		a.lease.Release()
	}
	return a, err
}

func (e *entry) get(ctx context.Context, waitOutOutage bool) (*journal.Observation, error) {
	seen, err := e.m.upstream.Get(ctx, e.id, waitOutOutage)
	if err == nil && seen != nil && micros(seen.UpdatedAt) < e.version {
		return nil, errOlderAnswer
	}
	return seen, err
}

// checkList asks upstream for its list if a 404 is for an entry that upstream has confirmed: the list
// tells whether the 404 is right. All readers that need the list share the request. checkList returns
// true if it got the list.
func (e *entry) checkList(waitOutOutage bool) (bool, error) {
	if e.known.inJournal && leavesNoTrace(e.known.state.Kind) { // a copy made since overtakes the answer
		return false, nil
	}
	unproven, err := e.m.journal.Trust.NeedsProof(e.id)
	if err != nil || !unproven { // guard 9.34
		return false, err
	}
	_, err = e.m.fetches.wait(&listing{e.m, e.id.Namespace, maxListLimit}, waitOutOutage, e.m.upstream.Patience(e.id))
	return err == nil, err
}

// rejected answers with the local state, because upstream's answer did not count. The generation is from
// before the lookup of the state. rejected waits until Ristretto has stored the earlier answer: otherwise
// Ristretto may keep the earlier one.
func (e *entry) rejected(state journal.State, generation cache.Generation) fetched {
	item, _ := entryItem(e.id, state)
	item.DoubtedAt, item.Doubt = time.Now(), uint8(state.Rejection)
	got := fetchedEntry(&item, false)
	if !e.unkept {
		e.m.cache.Await()
		got = fetchedEntry(e.m.cache.Put(e.key(), generation, item), false)
	}
	got.doubt = state.Rejection
	return got
}

// accept stores upstream's answer. listed says that upstream's list was asked for because of it.
func (e *entry) accept(seen *journal.Observation, listed bool, lease *cache.Lease, asked time.Time) (fetched, error) {
	generation := e.m.cache.Generation(e.key())
	var options []journal.FillOption
	outdated := e.isOutdated(seen)
	if e.unkept || outdated { // guard 7.34
		options = append(options, journal.NoNewCopy)
	}
	if listed {
		options = append(options, journal.Listed)
	}
	valid := func() bool { return !lease.Revoked() && (outdated || !e.isOutdated(seen)) } // guard 8.2, 7.35
	state, err := e.m.journal.Fill(e.id, seen, valid, options...)
	switch {
	case errors.Is(err, journal.ErrChanged):
		return e.overtaken(asked)
	case errors.Is(err, journal.ErrOlder):
		return fetched{}, errOlderAnswer
	case err != nil:
		return fetched{}, err
	case seen == nil && state.Rejection == journal.NotRejected && e.unkept:
		return fetchedEntry(&cache.Item{ConfirmedAt: time.Now()}, false), nil
	case seen == nil && state.Rejection == journal.NotRejected:
		byFill := func() (journal.State, bool) { return state, lease.Changes() == 1 } // and nothing else has changed the entry
		return fetchedEntry(e.m.rememberAbsence(e.id, byFill), false), nil
	}
	if state.Rejection != journal.NotRejected {
		if err := e.m.repairs.repair(e.m, e.id, seen, &state); err != nil {
			return fetched{}, err
		}
		return e.rejected(state, generation), nil
	}
	item, _ := entryItem(e.id, state)
	return fetchedEntry(&item, false), nil
}

// isOutdated reports whether the view now has a later version than upstream's answer. Such an answer is
// not kept: other readers may already know that the entry is deleted, and a copy would take them back
// to before the delete (contract 7).
func (e *entry) isOutdated(seen *journal.Observation) bool {
	return seen != nil && micros(seen.UpdatedAt) < e.m.view.versionOf(e.id)
}

// overtaken answers with the local state, not with upstream's answer: a pending write is newer, and a copy
// confirmed since asked is as good. So a busy entry does not keep its readers waiting.
func (e *entry) overtaken(asked time.Time) (fetched, error) {
	now, err := e.m.look(e.id, AnyAge)
	if err != nil {
		return fetched{}, err
	}
	if now.item == nil || now.item.Outdated || now.age > time.Since(asked) { // guard 7.65
		e.known = now
		return fetched{}, errOvertaken
	}
	return fetchedEntry(now.item, true), nil
}

func fetchedEntry(item *cache.Item, overtaken bool) fetched {
	return fetched{item: func(cache.Key) *cache.Item { return item }, overtaken: overtaken}
}

// rememberAbsence caches that upstream does not hold the entry, unless something newer is known here.
// The journal keeps no 404s, so rememberAbsence waits until the cache has stored this one. stateNow
// returns the journal's state; ok is false if something newer may have left no trace: on a nearly full disk a
// write may settle without a copy.
func (m *Memory) rememberAbsence(id journal.ID, stateNow func() (state journal.State, ok bool)) *cache.Item {
	absent := cache.Item{ConfirmedAt: time.Now()}
	generation := m.cache.Generation(entryKey(id)) // first: a later change makes it old
	state, ok := stateNow()
	if !ok { // guard 8.8
		return &absent
	}
	held, _ := m.view.shows(id) // the view or upstream's answer may be outdated
	if held || state.Listed || !leavesNoTrace(state.Kind) {
		return &absent
	}
	item := m.cache.Put(entryKey(id), generation, absent)
	m.cache.Await()
	return item
}
