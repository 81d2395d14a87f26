package entries

import (
	"context"
	"errors"
	"slices"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// purging is a change that makes answers about an entry, or a namespace's listing, outdated.
type purging struct {
	store.ChangeFunc
	readers *queue.Readers
	changed []ID
	unlock  func() // releases the copies lock
}

// Applied lets others change the namespace.
func (c *purging) Applied() { c.unlock() }

// Durable drops these answers.
func (c *purging) Durable() {
	for _, id := range c.changed {
		c.readers.Changed(queue.Change{ID: id})
	}
}

// PurgeListing removes the namespace's listing, or the entry's row and copy.
func (e *Entries) PurgeListing(_ context.Context, p *queue.Purge) error {
	unlock := e.Lock(p.Of.Namespace)
	defer unlock()
	change := &purging{readers: e.readers, changed: []ID{{Namespace: p.Of.Namespace}}, unlock: unlock}
	if p.Of.Key == "" {
		change.ChangeFunc = func(tx *store.Tx) error {
			dropListing(tx, p.Of.Namespace)
			e.Trust.note(p.Of.Namespace, Suspect{}) // a person gives up what upstream has lost
			return nil
		}
		return e.store.Update(change)
	}
	past, err := e.readHead(p.Of)
	if err != nil || past.version > p.UpTo { // guard 13.41
		return err
	}
	forget, err := e.Forget(p.Of)
	if err != nil {
		return err
	}
	newest, err := e.last(p.Of)
	if err != nil {
		return err
	}
	change.changed = append(change.changed, p.Of)
	change.ChangeFunc = func(tx *store.Tx) error {
		if e.queue.IsPending(p.Of) {
			return nil // the write is based on the copy
		}
		if newest.version <= p.UpTo {
			e.dropNewest(tx, p.Of)
		}
		if forget(tx); past.kept {
			p.Done.Copies++
		}
		return nil
	}
	return e.store.Update(change)
}

// PurgeCopies removes the namespace's copies, and the versions.
func (e *Entries) PurgeCopies(ctx context.Context, p *queue.Purge) error {
	removal := func(prefix []byte) *rangeRemoval {
		return &rangeRemoval{Entries: e, byHand: true, old: func(key, sealed []byte) bool { return takes(p, key, sealed) }, prefix: prefix}
	}
	copied := removal(record.Within(record.SettledPrefix, p.Of.Namespace))
	newest := removal(record.Within(record.NewestPrefix, p.Of.Namespace))
	versions := removal(record.Within(record.VersionPrefix, p.Of.Namespace))
	if p.Of.Key != "" {
		versions.prefix = record.VersionsOf(p.Of)
	} else if err := copied.run(ctx); err != nil {
		return err
	} else if err := newest.run(ctx); err != nil {
		return err
	}
	err := versions.run(ctx)
	p.Done.Copies += copied.records
	p.Done.Versions += versions.records
	return err
}

// PurgeLosses removes the versions that are lost or gone.
func (e *Entries) PurgeLosses(ctx context.Context, p *queue.Purge) error {
	for some := range slices.Chunk(e.losses.under(p.Covers), droppedAtOnce) {
		var goes []lostVersion
		for _, one := range some {
			v, ok, err := store.ReadVersion(e.store.DB(), one.ID, one.seq)
			if err = errors.Join(store.IgnoreDamage(err), ctx.Err()); err != nil {
				return err
			}
			if one.seq <= p.Until(!ok || v.Op == Put && !v.Shown) {
				one.Apart = true // the version goes, too
				goes = append(goes, one)
			}
		}
		err := e.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			e.store.Removals.Add(1)
			for i := range goes {
				e.losses.remove(tx, &goes[i])
			}
			return nil
		}))
		if err != nil {
			return err
		}
		p.Done.Versions += len(goes)
	}
	return nil
}

// takes reports whether a purge removes a copy or a version that nothing needs. Damaged ones go.
func takes(p *queue.Purge, key, sealed []byte) bool {
	body, err := record.Unseal(key, sealed)
	if err != nil {
		return true
	}
	if isVersion(key) {
		_, seq, err := record.ParseVersionKey(key)
		return err == nil && seq <= p.Until(record.IsPut(body))
	}
	_, _, version, err := record.DecodeSettled(body)
	return err == nil && version <= p.UpTo
}
