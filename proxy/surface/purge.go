package surface

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

const (
	// purgePage is the number of entries that a purge looks up at a time, and purgesAtOnce how many it
	// deletes at a time: so the journal makes their deletes durable together.
	purgePage    = 500
	purgesAtOnce = 32
)

// purge removes an entry, or all entries of a namespace, for good: first upstream, then everything that
// is here. It answers when that is done, or with the progress when its time is up: the same request then
// goes on with it. With local, it leaves upstream alone, and drops the pending writes.
func (s *Surface) purge(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	of, local := journal.ID{Namespace: p.givenNamespace()}, p.truth("local")
	timeout := p.duration("timeout", flushTimeout, maxFlushTimeout, "1h")
	last := p.asOf(s.journal.Stats().LastSeq)
	if p.values.Has("key") {
		of = p.Entry()
	}
	ctx, end, err := s.within(w, r, p, timeout)
	if err != nil {
		return err
	}
	defer end()
	doc := api.Purged{Namespace: of.Namespace, Key: of.Key, AsOf: cmp.Or(last, s.journal.Stats().LastSeq)}
	step := s.deleteUpstream
	if local {
		step = s.dropAllPending
	}
	select {
	case <-s.journal.Rebuilt(): // only then all pending writes are known
		err = step(ctx, of, &doc)
	case <-ctx.Done():
		err = journal.ErrRebuilding
	}
	if err == nil {
		doc.Removed, err = s.purgeHere(ctx, of, &doc)
	}
	refusal, refused := errors.AsType[*wire.Refusal](err)
	switch {
	case err == nil:
	case refused:
		return refusal
	case ctx.Err() == nil || r.Context().Err() != nil:
		return err
	default:
		doc.Why, doc.Waits = err.Error(), newWaitDocument(s.flusher.Waits(of.Namespace))
		return writeDocument(w, http.StatusGatewayTimeout, doc)
	}
	doc.Done, doc.NotReached = true, s.notReached(local)
	return writeDocument(w, http.StatusOK, doc)
}

var errNoList = errors.New("upstream has not listed the namespace in time")

func (s *Surface) notReached(local bool) []string {
	upstream := "what upstream keeps of deleted entries by itself"
	if local {
		upstream = "upstream"
	}
	all := []string{upstream, "copies on other hosts, and backups and exports", "freed blocks and snapshots of the disk, and the swap space"}
	aside, err := s.journal.Aside()
	for _, dir := range aside {
		all = append(all, "the damaged journal that a recovery has kept in "+dir)
	}
	if err != nil {
		all = append(all, "damaged journals that a recovery may have kept in the data directory")
	}
	return all
}

// deleteUpstream deletes the entries that upstream holds by ordinary writes, and waits until it has
// confirmed them. It asks upstream first, so that nothing is half done while it is down. Entries written here
// after doc.AsOf stay, and those that another host has written since they were deleted, or has made since upstream was
// first asked.
func (s *Surface) deleteUpstream(ctx context.Context, of journal.ID, doc *api.Purged) error {
	deletes := &purgeDeletes{Surface: s, of: of, last: doc.AsOf, past: make(map[string]bool)}
	for first := true; ; first = false {
		rows, _, _, err := s.memory.Look(ctx, of.Namespace, nil)
		if err != nil {
			if ctx.Err() != nil {
				return errNoList
			}
			return needsUpstream(doc, err)
		}
		if first {
			for i := range rows {
				deletes.newest = max(deletes.newest, rows[i].UpdatedAt)
			}
		}
		more, err := deletes.round(ctx, first)
		doc.Deleted = deletes.deleted
		if err != nil {
			return err
		}
		_, dead, _, err := s.flusher.Flush(ctx, of.Namespace)
		switch {
		case err != nil:
			return fmt.Errorf("deletes wait to be sent upstream: %w", err)
		case dead > 0:
			return wire.Detail(http.StatusBadGateway, fmt.Sprintf("upstream has refused writes to the namespace (%d): GET dead-letters has the reason. Nothing is purged here", dead))
		case !more && deletes.full != nil: // guard 13.109
			return deletes.full
		case !more:
			if s.opts.PurgeVersions == nil {
				return nil
			}
			return needsUpstream(doc, s.opts.PurgeVersions(ctx, of))
		}
	}
}

func needsUpstream(doc *api.Purged, err error) error {
	wait, unavailable := memory.RetryAfter(err)
	if !unavailable {
		return err
	}
	sofar := "nothing is deleted or purged"
	if doc.Deleted > 0 {
		sofar = fmt.Sprintf("nothing is purged here, and deletes are pending or sent (%d)", doc.Deleted)
	}
	return wire.Unavailable(wait, fmt.Sprintf(
		"a purge deletes upstream first, and %v: %s. Repeat it when upstream answers, or purge only what is here, with local=true", err, sofar))
}

// purgeDeletes deletes the entries of a purge, each once.
type purgeDeletes struct {
	*Surface
	of   journal.ID
	last uint64 // the number of the last write that goes
	// newest is the latest time that upstream listed when it was first asked, in Unix seconds. It lists its newest keys: one
	// of a later time that comes to light in a later round is new.
	newest float64

	mu      sync.Mutex      // guards the fields below
	past    map[string]bool // the entries that were met: true if they were deleted
	deleted int
	more    bool  // another round is needed
	full    error // the journal has no room
}

// round deletes the known entries, unless they were deleted before, or written after the purge began. more says that
// deletes are pending: once they are sent, another round follows. For a delete that was pending already may lose to another
// host's state, which goes, too, and the journal may have had no room for all.
func (d *purgeDeletes) round(ctx context.Context, first bool) (more bool, err error) {
	d.more, d.full = false, nil
	if d.of.Key != "" {
		err = d.delete(ctx, d.of.Key, false)
		return d.more, err
	}
	for after := ""; d.full == nil; {
		found, _, err := d.memory.Known(d.of.Namespace, "", after, purgePage)
		if err != nil || len(found) == 0 {
			return d.more, err
		}
		after = found[len(found)-1].Key
		var tasks errgroup.Group
		tasks.SetLimit(purgesAtOnce)
		for _, k := range found {
			if k.Op == journal.Delete || k.Seq <= d.last {
				isNew := !first && k.Seq == 0 && k.UpdatedAt > d.newest
				tasks.Go(func() error { return d.delete(ctx, k.Key, isNew) })
			}
		}
		if err := tasks.Wait(); err != nil {
			return d.more, err
		}
	}
	return d.more, nil
}

// delete deletes an entry, unless it was deleted before, or is new and was not met before.
func (d *purgeDeletes) delete(ctx context.Context, key string, isNew bool) error {
	d.mu.Lock()
	past, met := d.past[key]
	stays := past || isNew && !met // guard 13.107, 13.110
	if !stays {
		d.past[key] = past
	}
	d.mu.Unlock()
	if stays {
		return nil
	}
	id := journal.ID{Namespace: d.of.Namespace, Key: key}
	_, err := d.memory.Do(ctx, &memory.Request{Verb: memory.DeleteEntry, ID: id, Before: d.last + 1, Together: true})
	refusal, refused := errors.AsType[*wire.Refusal](err)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.past[key], d.more = true, true
		d.deleted++
	case refused && refusal.Status == http.StatusNotFound:
		var pending bool
		_, pending, err = d.journal.Newest(id)
		d.more = d.more || pending // guard 13.108
	case errors.Is(err, memory.ErrLater):
		return nil
	case errors.Is(err, journal.ErrFull):
		d.full = err
		return nil
	}
	return err
}

// dropAllPending makes the pending writes of a purge dead letters, which the purge then removes.
func (s *Surface) dropAllPending(ctx context.Context, of journal.ID, doc *api.Purged) error {
	drop := func(id journal.ID, seq uint64) error {
		_, err := s.flusher.Drop(ctx, id, seq)
		if errors.Is(err, journal.ErrNotPending) { // it has just been sent, or replaced
			return nil
		}
		if err == nil {
			doc.Dropped++
		}
		return err
	}
	if of.Key != "" {
		w, pending, err := s.journal.Newest(of)
		if err != nil || !pending || w.Seq > doc.AsOf { // guard 13.74
			return err
		}
		return drop(of, w.Seq)
	}
	for before := -1; before != doc.Dropped; {
		before = doc.Dropped
		for _, p := range s.journal.PendingList(of.Namespace, purgePage) {
			if p.Seq > doc.AsOf {
				continue
			}
			if err := drop(p.ID, p.Seq); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Surface) purgeHere(ctx context.Context, of journal.ID, doc *api.Purged) (api.PurgedRecords, error) {
	done, err := s.journal.Purge(ctx, of.Namespace, of.Key, doc.AsOf)
	if of.Key != "" {
		s.opts.Cache.Changed(of.Namespace, of.Key)
	}
	doc.Pending = done.Pending
	return api.PurgedRecords{Copies: done.Copies, Versions: done.Versions, DeadLetters: done.DeadLetters, Receipts: done.Receipts}, err
}
