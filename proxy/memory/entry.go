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

func (m *Memory) findEntry(id journal.ID, d Directives) (found, error) {
	m.lister.note(id.Namespace)
	item, generation := m.cache.Get(entryKey(id))
	f := m.assess(id.Namespace, d, item, generation)
	if f.freshness == cache.Fresh || item != nil && item.Body != nil && !m.view.mayRefresh(item) {
		return f, nil
	}
	_, f, err := m.lookUp(id, d)
	return f, err
}

// lookUp finds what is known of an entry, and always reads the journal for that. seq is the number of
// the pending write; 0 if there is none.
func (m *Memory) lookUp(id journal.ID, d Directives) (seq uint64, f found, err error) {
	key := entryKey(id)
	item, generation := m.cache.Get(key)
	state, err := m.journal.Lookup(id)
	if err != nil {
		return 0, found{}, err
	}
	known := m.view.merge(id, &state, item)
	if known.deleted { // guard 7.33
		if err := m.dropDeleted(id); err != nil {
			return 0, found{}, err
		}
		return m.lookUp(id, d)
	}
	fromJournal := known.item != nil && known.item != item
	if fromJournal && !known.item.Outdated {
		known.item = m.cache.Put(key, generation, *known.item) // guard 8.5
	}
	f = m.assess(id.Namespace, d, known.item, generation)
	f.disk = fromJournal
	f.mayExist = known.mayExist
	return state.Seq, f, nil
}

// newest returns the newer of the journal's state and a cached answer; nil if neither answers. The journal
// does not keep upstream's 404s. So a cached 404 may be newer than a listing without the entry, unless a
// later listing has the entry.
func newest(id journal.ID, state *journal.State, cached *cache.Item) *cache.Item {
	made, ok := entryItem(id, *state)
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

// entry is a resource: an entry that had no pending write at generation.
type entry struct {
	m          *Memory
	id         journal.ID
	generation cache.Generation
	unkept     bool // keep no copy of the answer
	// shown is the time, in microseconds, of the version in the view when the read began; 0 without a view.
	// An older answer does not count.
	shown int64
}

func newEntry(m *Memory, id journal.ID, generation cache.Generation, unkept bool) *entry {
	return &entry{m, id, generation, unkept, m.view.versionOf(id)}
}

func (e *entry) key() cache.Key { return entryKey(e.id) }

// name separates readers whose answer is not kept from the others. It also separates a reader that knows of a
// version from a request that began before that version was known (contract 7).
func (e *entry) name() string {
	name := e.id.String()
	if e.shown != 0 {
		name += " since " + strconv.FormatInt(e.shown, 10)
	}
	if e.unkept {
		name += " unkept"
	}
	return name
}

// ask protects the answer in two ways. It takes a lease on the entry before it asks: the journal drops the
// answer if the entry was written or settled after upstream may have made it. A write that was pending before
// the lease is newer than any answer: ask compares generations to see whether one came since the reader
// looked.
func (e *entry) ask(ctx context.Context, waitOutOutage bool) (accept func() (fetched, error), err error) {
	asked := time.Now()
	lease := e.m.cache.Lease(e.key())
	defer func() {
		if accept == nil {
			lease.Release()
		}
	}()
	if e.m.cache.Generation(e.key()) != e.generation {
		state, err := e.m.journal.Lookup(e.id)
		if err != nil {
			return nil, err
		}
		if state.Seq != 0 { // guard 8.4
			return func() (fetched, error) {
				defer lease.Release()
				return e.overtaken(asked)
			}, nil
		}
	}
	seen, err := e.get(ctx, waitOutOutage)
	if err != nil { // guard 9.1
		return nil, err
	}
	listed := false
	if _, absent := e.m.view.shows(e.id); seen == nil && !absent {
		if listed, err = e.checkList(waitOutOutage); err != nil { // guard 9.35
			return nil, err
		}
	}
	// guard 9.37
	if listed { // which may have dropped the copy: the entry is asked for again
		lease.Release()
		lease = e.m.cache.Lease(e.key())
		if seen, err = e.get(ctx, waitOutOutage); err != nil {
			return nil, err
		}
	}
	return func() (fetched, error) {
		defer lease.Release()
		return e.accept(seen, listed, lease, asked)
	}, nil
}

func (e *entry) get(ctx context.Context, waitOutOutage bool) (*journal.Observation, error) {
	seen, err := e.m.upstream.Get(ctx, e.id, waitOutOutage)
	if err == nil && seen != nil && micros(seen.UpdatedAt) < e.shown {
		return nil, errOlderAnswer
	}
	return seen, err
}

// checkList asks upstream for its list if a 404 is for an entry that upstream has confirmed: the list
// tells whether the 404 is right. All readers that need the list share the request. checkList returns
// true if it got the list.
func (e *entry) checkList(waitOutOutage bool) (bool, error) {
	unproven, err := e.m.journal.Trust.NeedsProof(e.id)
	if err != nil || !unproven { // guard 9.34
		return false, err
	}
	_, err = e.m.fetches.wait(&listing{e.m, e.id.Namespace, maxListLimit}, waitOutOutage, e.m.upstream.Patience(e.id))
	return err == nil, err
}

// known answers with the local state, because upstream's answer did not count. The generation is from
// before the lookup of the state. known waits until Ristretto has stored the earlier answer: otherwise
// Ristretto may keep the earlier one.
func (e *entry) known(state journal.State, generation cache.Generation) fetched {
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
		absent, err := e.m.rememberAbsence(e.id, func() bool { return lease.Changes() == 1 }) // the change by Fill
		return fetchedEntry(absent, false), err
	}
	if state.Rejection != journal.NotRejected {
		if err := e.m.repairs.repair(e.m, e.id, seen, &state); err != nil {
			return fetched{}, err
		}
		return e.known(state, generation), nil
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
	now, err := e.m.findEntry(e.id, AnyAge)
	if err != nil {
		return fetched{}, err
	}
	if now.item == nil || now.age > time.Since(asked) {
		e.generation = now.generation
		return fetched{}, errOvertaken
	}
	return fetchedEntry(now.item, true), nil
}

func fetchedEntry(item *cache.Item, overtaken bool) fetched {
	return fetched{item: func(cache.Key) *cache.Item { return item }, overtaken: overtaken}
}

// rememberAbsence caches that upstream does not hold the entry, unless something newer is known here.
// The journal keeps no 404s, so rememberAbsence waits until the cache has stored this one. unchanged
// returns false if something newer may have left no trace: on a nearly full disk a write may settle
// without a copy.
func (m *Memory) rememberAbsence(id journal.ID, unchanged func() bool) (*cache.Item, error) {
	absent := cache.Item{ConfirmedAt: time.Now()}
	generation := m.cache.Generation(entryKey(id)) // first: a later change makes it old
	// guard 8.8
	if !unchanged() {
		return &absent, nil
	}
	state, err := m.journal.Lookup(id)
	if err != nil {
		return nil, err
	}
	if present, _ := m.view.shows(id); present { // the view or upstream's answer may be outdated
		return &absent, nil
	}
	if state.Kind == journal.Absent || state.Kind == journal.Unknown && !state.Listed {
		item := m.cache.Put(entryKey(id), generation, absent)
		m.cache.Await()
		return item, nil
	}
	return &absent, nil
}
