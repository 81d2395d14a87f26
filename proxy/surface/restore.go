package surface

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

func (p *Parameters) isAboutAll() bool { return p.Text("namespace") == "*" }

// restore gives back to upstream what upstream has lost of a namespace, or with a key of one entry. It answers when nothing of
// that is pending any more, or with the progress when its time is up. For all namespaces, it answers once all is pending.
func (s *Surface) restore(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	if p.isAboutAll() {
		return s.restoreAll(w, r, p)
	}
	id, timeout := journal.ID{Namespace: p.givenNamespace()}, p.duration("timeout", flushTimeout, maxFlushTimeout, "1h")
	if p.values.Has("key") {
		id = p.Entry()
	}
	namespace := id.Namespace
	ctx, end, err := s.within(w, r, p, timeout)
	if err != nil {
		return err
	}
	defer end()
	doc, status := api.Restoration{Namespace: namespace, State: "over"}, http.StatusOK
	counts := (*memory.Restored)(&doc.RestoreCounts)
	for more := true; more && doc.Left == 0; {
		var written []journal.Write
		if written, more, err = s.giveBack(ctx, id, counts); err != nil {
			return err
		}
		if doc.Left, err = s.memory.AwaitRestored(ctx, written, counts); err != nil {
			return err
		}
	}
	if suspicion, suspect := s.journal.Trust.Suspect(namespace); suspect && id.Key == "" {
		doc.Left = max(doc.Left, suspicion.Missing)
	}
	if doc.Left > 0 {
		doc.State, status = "running", http.StatusGatewayTimeout
	}
	doc.Waits = newWaitDocument(s.flusher.Waits(namespace))
	return writeDocument(w, status, doc)
}

// giveBack journals what upstream has lost of a namespace, or of one entry. more says that there was no room for all of it.
func (s *Surface) giveBack(ctx context.Context, id journal.ID, counts *memory.Restored) (written []journal.Write, more bool, err error) {
	if id.Key == "" {
		return s.memory.Restore(ctx, id.Namespace, false, counts)
	}
	written, err = s.memory.RestoreEntry(id)
	return written, false, err
}

// forgetEntry drops the local copy of one entry: the next reader asks upstream.
func (s *Surface) forgetEntry(w http.ResponseWriter, id journal.ID) error {
	gone, err := s.journal.Disk.Forget(id)
	if errors.Is(err, journal.ErrPending) {
		return wire.Detail(http.StatusConflict, fmt.Sprintf(
			"a write to %s is pending, and would be lost: have it sent first, or drop it (POST flush or pending/drop)", id))
	}
	if err != nil {
		return err
	}
	s.opts.Cache.Changed(id.Namespace, id.Key) // guard 7.32
	forgotten := 0
	if gone {
		forgotten = 1
	}
	return writeDocument(w, http.StatusOK, api.ForgottenEntry{Namespace: id.Namespace, Key: id.Key, Forgotten: forgotten})
}

// forget accepts upstream's state of a namespace: entries that upstream lacks, or lists with an older
// time, are no longer known here. For all namespaces, botwired goes on with an upstream that has lost
// writes.
func (s *Surface) forget(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	if p.values.Has("key") {
		id := p.Entry()
		if p.Err != nil {
			return p.Err
		}
		return s.forgetEntry(w, id)
	}
	if p.isAboutAll() {
		lost := s.lost()
		if lost != "" {
			if err := s.goOn(false); err != nil {
				return err
			}
		}
		return writeDocument(w, http.StatusOK, api.Accepted{Lost: lost, Namespaces: []string{}})
	}
	namespace := p.givenNamespace()
	ctx, end, err := s.within(w, r, p, flushTimeout)
	if err != nil {
		return err
	}
	defer end()
	held, _, forgotten, err := s.memory.Look(ctx, namespace, func(fill *journal.ListingFill, _ []journal.Row) error {
		fill.Believe()
		return nil
	})
	if err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, api.Forgotten{Namespace: namespace, Forgotten: forgotten, UpstreamHolds: len(held)})
}

// Watch keeps the memory's View up to date. It notices when upstream has lost confirmed writes, and then
// asks upstream for nothing until a person decides. Its methods may be called concurrently.
type Watch interface {
	State() api.WatchState
	// Accept makes the watch go on with upstream's current state. With restores, it gives back the deletes
	// that upstream has lost. The decision is durable when Accept returns.
	Accept(restores bool) error
}

func (s *Surface) lost() string {
	if s.opts.Watch == nil {
		return ""
	}
	return s.opts.Watch.State().Lost
}

// restoreAll journals what upstream has lost of all namespaces. If upstream is not trusted at all, that is all that is
// here. It does not wait until upstream has it.
func (s *Surface) restoreAll(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	for _, ofOne := range []string{"timeout", "key"} {
		if p.values.Has(ofOne) {
			return wire.Detail(http.StatusBadRequest, ofOne+" is for one namespace")
		}
	}
	ctx, end, err := s.within(w, r, p, flushTimeout)
	if err != nil {
		return err
	}
	defer end()
	doc := api.Accepted{Lost: s.lost()}
	if doc.Lost != "" {
		// All namespaces must have data loss before the first answer of upstream counts.
		if err := s.memory.DistrustAll(); err != nil {
			return err
		}
		if err := s.goOn(true); err != nil {
			return err
		}
	}
	doc.Namespaces = slices.Sorted(maps.Keys(s.journal.Trust.Suspects()))
	if len(doc.Namespaces) == 0 && doc.Lost == "" && s.opts.Watch != nil {
		if watch := s.opts.Watch.State(); !watch.CaughtUp {
			return wire.Unavailable(time.Second, "what upstream has lost is not known yet, as its changes are not watched ("+watch.Reason+"): try again once they are")
		}
	}
	if doc.Namespaces == nil {
		doc.Namespaces = []string{}
	}
	var counts memory.Restored
	for _, namespace := range doc.Namespaces {
		if _, _, err := s.memory.Restore(ctx, namespace, doc.Lost != "", &counts); err != nil {
			return err
		}
	}
	doc.Uncopied = counts.Uncopied
	return writeDocument(w, http.StatusOK, doc)
}

// goOn accepts upstream's current state, so that upstream is asked again, and sends the writes that
// waited for that.
func (s *Surface) goOn(restores bool) error {
	err := s.opts.Watch.Accept(restores)
	if err == nil {
		s.flusher.TryNow("")
	}
	return err
}
