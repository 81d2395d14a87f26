package surface

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

func (s *Surface) pending(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace, limit := p.namespace(), p.limit()
	if p.Err != nil {
		return p.Err
	}
	s.awaitIndex(r.Context())
	docs := []api.PendingWrite{}
	for _, p := range s.journal.PendingList(namespace, limit) {
		author, err := s.journal.History.Author(p.ID, p.Seq)
		if err != nil {
			return err
		}
		doc := api.PendingWrite{
			Seq: p.Seq, Namespace: p.Namespace, Key: p.Key, Op: p.Op.String(), Bytes: p.Bytes, Author: author,
			WrittenAt: p.WrittenAt, Since: p.Since, Waits: newWaitDocument(s.flusher.EntryWaits(p.ID)),
		}
		var next time.Time
		doc.Attempts, doc.LastError, next = s.flusher.Attempts(p.ID)
		doc.NextAttempt = stamp(next)
		docs = append(docs, doc)
	}
	return writeDocument(w, http.StatusOK, api.Pending{Pending: docs})
}

func (s *Surface) dropPending(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	id, seq := p.Entry(), p.Number("seq", "seq=%q: expected the number of a pending write")
	ctx, end, err := s.within(w, r, p, flushTimeout)
	if err != nil {
		return err
	}
	defer end()
	dropped, err := s.flusher.Drop(ctx, id, seq)
	if errors.Is(err, journal.ErrNotPending) {
		return wire.Detail(http.StatusNotFound, fmt.Sprintf("no such write to %s is pending", id))
	}
	if err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, api.Dropped{
		Dropped: true, ID: strconv.FormatUint(dropped.Seq, 10), Seq: dropped.Seq, Namespace: id.Namespace, Key: id.Key,
	})
}

// flush answers when all writes acknowledged before it are settled or dead, or when its time is up. With the
// parameter now it also ends timed waits.
func (s *Surface) flush(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	namespace, timeout, now := p.namespace(), p.duration("timeout", flushTimeout, maxFlushTimeout, "1h"), p.truth("now")
	ctx, end, err := s.within(w, r, p, timeout)
	if err != nil {
		return err
	}
	defer end()
	if now {
		s.flusher.TryNow(namespace)
	}
	settled, dead, pending, err := s.flusher.Flush(ctx, namespace)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if pending > 0 || err != nil {
		return writeDocument(w, http.StatusGatewayTimeout, api.Flushed{Settled: settled, Dead: dead, Pending: pending, Waits: s.waits(namespace)})
	}
	return writeDocument(w, http.StatusOK, api.Flushed{Settled: settled, Dead: dead})
}

// newWaitDocument returns nil if nothing waits.
func newWaitDocument(why string, until time.Time) *api.Wait {
	if why == "" {
		return nil
	}
	return &api.Wait{Why: why, Until: stamp(until)}
}

func (s *Surface) waits(namespace string) []api.NamespaceWait {
	docs := []api.NamespaceWait{}
	for name := range s.journal.Stats().Namespaces {
		if namespace != "" && name != namespace {
			continue
		}
		if doc := newWaitDocument(s.flusher.Waits(name)); doc != nil {
			docs = append(docs, api.NamespaceWait{Namespace: name, Wait: *doc})
		}
	}
	slices.SortFunc(docs, func(a, b api.NamespaceWait) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return docs
}
