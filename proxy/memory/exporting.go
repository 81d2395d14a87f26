package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

const exportStep = 256

// Export is a running export: all entries of a namespace in the order of their keys, as a reader would see
// them, with pending writes laid over upstream's state.
type Export struct {
	m         *Memory
	namespace string
	Missing   int    // number of keys whose values could not be had
	Why       string // why the export may lack entries; empty if it lacks none
}

// Export begins an export. It asks upstream for the namespace's keys, unless the last listing is fresh.
func (m *Memory) Export(namespace string) (*Export, error) {
	x := &Export{m: m, namespace: namespace}
	return x, x.list()
}

// Say records why the export may lack entries. The first reason counts.
func (x *Export) Say(why string) {
	if x.Why == "" {
		x.Why = why
	}
}

// Entries calls write for each entry, with the answer to a GET of the entry. It calls wait before it
// waits for entries.
func (x *Export) Entries(ctx context.Context, wait func() error, write func(*cache.Item) error) error {
	begin := func() error { return errors.Join(ctx.Err(), wait()) }
	take := func(got exported) error {
		switch {
		case got.err != nil:
			x.Missing++
			x.Say(fmt.Sprintf("the values of some keys are not known here, and %v", got.err))
			return nil //nolint:nilerr // the last line counts it
		case got.item.Body == nil:
			return nil // deleted meanwhile
		}
		return write(got.item)
	}
	for after := ""; ; {
		keys, listed, err := x.m.journal.Keys.After(x.namespace, after, exportStep)
		if err != nil || len(keys) == 0 {
			return err
		}
		err = inOrder(x.m.fetches.logger, keys, begin, func(k *journal.KnownKey) (exported, error) { return x.export(k, listed.FetchedAt) }, take)
		if err != nil || len(keys) < exportStep {
			return err
		}
		after = keys[len(keys)-1].Key
	}
}

// exported is an entry on its way into the export. item has no body if the entry was deleted meanwhile.
type exported struct {
	item *cache.Item
	err  error // the value could not be had
}

// list reads no rows, because a large namespace has many.
func (x *Export) list() error {
	from := &listing{x.m, x.namespace, 1}
	x.m.lister.note(x.namespace)
	head, kept, err := x.m.journal.Listings.Head(x.namespace)
	if err != nil {
		return err
	}
	incomplete, k := !head.Complete, known{}
	if kept {
		k.item = &cache.Item{Body: []byte{}, ConfirmedAt: head.FetchedAt, Incomplete: incomplete}
	}
	if x.m.assess(x.namespace, AnyAge, &k); k.freshness != cache.Fresh {
		got, err := x.m.fetches.wait(from, true, x.m.fetches.patience(from))
		switch {
		case err == nil:
			incomplete = got.item(from.key()).Incomplete
		case !kept:
			x.Say(fmt.Sprintf("upstream has never listed the namespace, and %v: entries of which botwired does not know are missing", err))
			return nil
		case !isNoAnswer(err):
			return err
		default:
			x.Say(fmt.Sprintf("%v: entries that other hosts have made since its last list may be missing", err))
		}
	}
	if incomplete { // guard 9.30
		x.Say(fmt.Sprintf("upstream lists no more than its newest %d keys: others, of which botwired does not know, are missing", maxListLimit))
	}
	return nil
}

// export returns the state of an entry. If what is known here is neither fresh nor stale, it asks
// upstream. A copy that the last listing has shown unchanged counts as confirmed when that listing was
// fetched.
func (x *Export) export(key *journal.KnownKey, listedAt time.Time) (exported, error) {
	id := journal.ID{Namespace: x.namespace, Key: key.Key}
	k, err := x.m.lookInJournal(id, AnyAge)
	if err != nil {
		return exported{}, err
	}
	if k.disk && !k.item.Outdated && !k.item.ConfirmedAt.IsZero() && key.Confirmed && listedAt.After(k.item.ConfirmedAt) {
		k.item.ConfirmedAt = listedAt
		x.m.assess(id.Namespace, AnyAge, &k)
	}
	if k.freshness <= cache.Stale {
		return exported{item: k.item}, nil
	}
	from := newEntry(x.m, id, k, false)
	got, err := x.m.fetchFor(k.freshness, from)
	switch {
	case err == nil:
		return exported{item: got.item(from.key())}, nil
	case k.freshness == cache.Fallback && isNoAnswer(err):
		return exported{item: k.item}, nil
	}
	return exported{err: err}, nil
}
