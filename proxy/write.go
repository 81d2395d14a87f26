package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// put journals a value.
func (s *Server) put(w http.ResponseWriter, r *http.Request, id journal.ID) error {
	value, room, refusal := s.bodies.ReadPut(w, r, id.Namespace, id.Key)
	if refusal != nil {
		return refusal
	}
	defer room.Release()
	written, err := s.journalPut(id, value)
	if err != nil {
		return err
	}
	room.Release() // what follows may wait for upstream
	s.acknowledge(w, r, written, wire.AppendStored(nil, id.Namespace, id.Key, wire.CodePoints(value)))
	return nil
}

func (s *Server) journalPut(id journal.ID, value string) (journal.Write, error) {
	return s.opts.Journal.Append(journal.NewWrite{
		ID: id, Op: journal.Put, Value: value, ListBytes: wire.ListBytes(value),
	})
}

// acknowledge answers a write that is durable, after waiting for upstream if the caller
// prefers that.
func (s *Server) acknowledge(w http.ResponseWriter, r *http.Request, written journal.Write, body []byte) {
	s.metrics.acknowledged[written.Op].Inc()
	state := "pending"
	if wait, ok := preferredWait(r.Header); ok && s.settles(w, r, written, wait) {
		state = "settled"
	}
	w.Header().Set("Botwired-Write", state+"; seq="+strconv.FormatUint(written.Seq, 10))
	writeJSON(w, http.StatusOK, body)
}

// delete journals a tombstone for an entry that exists, as far as can be told
// (contract 11).
func (s *Server) delete(w http.ResponseWriter, r *http.Request, id journal.ID) error {
	if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
		return refusal
	}
	for look := 1; ; look++ {
		written, err := s.tryDelete(r, id, look > looksForNews)
		switch {
		case errors.Is(err, journal.ErrChanged), errors.Is(err, errOvertaken):
			// Another write was faster: what it left decides, if anybody still asks.
			if err := r.Context().Err(); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		s.acknowledge(w, r, written, wire.AppendDeleted(nil, id.Namespace, id.Key))
		return nil
	}
}

// looksForNews is how often a DELETE looks at an entry that is known neither before nor
// after upstream was asked for it. An answer of upstream's is news; it is usually kept
// and makes the entry known, but not on a nearly full disk.
const looksForNews = 2

// tryDelete decides on one look at the entry, and journals the tombstone only if the
// entry is still as it was then. With askedBefore, what upstream answers is no news, and
// neither is what else leaves no trace here.
func (s *Server) tryDelete(r *http.Request, id journal.ID, askedBefore bool) (journal.Write, error) {
	watch := s.opts.Cache.Watch(entryKey(id))
	defer watch.Stop()
	state, err := s.opts.Journal.Lookup(id)
	if err != nil {
		return journal.Write{}, err
	}
	switch state.Kind {
	case journal.Gone:
		return journal.Write{}, wire.NotFound(id.Namespace, id.Key)
	case journal.Unknown:
		if err := s.mayExist(r, id); err != nil {
			return journal.Write{}, err
		}
	}
	return s.opts.Journal.Append(journal.NewWrite{
		ID: id, Op: journal.Delete,
		If: func(newest uint64) bool {
			return newest == state.Seq && (!watch.Changed() || askedBefore && state.Kind == journal.Unknown)
		},
	})
}

// mayExist refuses with 404 an entry that is known to be absent. If that is not known
// upstream is asked, and if upstream cannot be asked, the entry may exist.
func (s *Server) mayExist(r *http.Request, id journal.ID) error {
	key := entryKey(id)
	item, ok := s.opts.Cache.Get(key)
	if ok {
		_, freshness := s.judge(key, directives{maxAge: -1}, item)
		ok = freshness == cache.Fresh
	}
	if !ok {
		var err error
		item, err = s.ask(r.Context(), entrySource{s, id}, false)
		if isUnavailable(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if item.Body == nil {
		return wire.NotFound(id.Namespace, id.Key)
	}
	return nil
}

func isUnavailable(err error) bool {
	var later interface{ RetryAfter() time.Duration }
	return errors.As(err, &later)
}
