package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// put journals a value.
func (m *memory) put(w http.ResponseWriter, r *http.Request, id journal.ID, c *call) error {
	wanted, err := parseConditions(r.Header)
	if err != nil {
		return err
	}
	value, room, refusal := m.bodies.ReadPut(w, r, id.Namespace, id.Key)
	if refusal != nil {
		return refusal
	}
	defer room.Release()
	observed(w).put(value)
	return putValue(m, w, r, newPut(id, value), wanted, room.Release, c)
}

// putValue carries out a PUT. It calls release once nobody else need wait for it any more: at the
// latest before it waits for upstream.
func putValue(
	m *memory, w http.ResponseWriter, r *http.Request, put journal.NewWrite, wanted conditions, release func(), c *call,
) error {
	if carriesThrough(m, &put, r, wanted, c) {
		release() // a namespace that waits for upstream is not to keep others from reading
		return putThrough(r.Context(), m, w, put, wanted, c)
	}
	written, err := m.storeIf(r.Context(), put, wanted)
	if err != nil {
		return err
	}
	w.Header()["Etag"] = []string{writeTag(written.Seq, put.Value)}
	release() // acknowledging may wait for upstream
	m.acknowledge(w, r, c, written, "", wire.AppendStored(nil, put.Namespace, put.Key, wire.CodePoints(put.Value)))
	return nil
}

func newPut(id journal.ID, value string) journal.NewWrite {
	return journal.NewWrite{ID: id, Op: journal.Put, Value: value, ListBytes: wire.ListBytes(value)}
}

// store journals a write.
func (m *memory) store(w journal.NewWrite) (journal.Write, error) {
	m.used.note(w.Namespace)
	if err := m.offline.fence(&w); err != nil {
		return journal.Write{}, err
	}
	written, err := m.journal.Append(w)
	if err == nil {
		m.metrics.acknowledged.Add(1)
	}
	return written, err
}

// acknowledge answers a write that is durable. It first waits for upstream if the caller
// prefers that.
func (m *memory) acknowledge(
	w http.ResponseWriter, r *http.Request, c *call, written journal.Write, parameter string, body []byte,
) {
	m.traces.Note(written.String(), written.Seq, c.trace)
	state := "pending"
	c.outcome = wasAcknowledged
	if wait, ok := preferredWait(r.Header); ok {
		c.outcome = wasAwaited
		m.metrics.awaited.Add(1)
		state = m.outcome(w, r, written, wait)
	}
	w.Header().Set("Botwired-Write", state+parameter+"; seq="+strconv.FormatUint(written.Seq, 10))
	writeJSON(w, http.StatusOK, body)
}

// assumed marks the answer to a DELETE that says, without knowing it, that the entry
// existed.
const assumed = "; assumed" // guard 11.5

// delete journals a tombstone for an entry that exists, as far as can be told
// (contract 11).
func (m *memory) delete(w http.ResponseWriter, r *http.Request, id journal.ID, c *call) error {
	if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
		return refusal
	}
	wanted, err := parseConditions(r.Header)
	if err != nil {
		return err
	}
	m.used.note(id.Namespace)
	if write := (journal.NewWrite{ID: id, Op: journal.Delete}); carriesThrough(m, &write, r, wanted, c) {
		return deleteThrough(r.Context(), m, w, write, wanted, c)
	}
	written, parameter, err := m.remove(r.Context(), id, wanted)
	if err != nil {
		return err
	}
	m.acknowledge(w, r, c, written, parameter, wire.AppendDeleted(nil, id.Namespace, id.Key))
	return nil
}

func (m *memory) remove(ctx context.Context, id journal.ID, c conditions) (w journal.Write, parameter string, err error) {
	if c.given() {
		w, err = m.storeIf(ctx, journal.NewWrite{ID: id, Op: journal.Delete}, c)
		return w, "", err
	}
	began := time.Now()
	for look := 1; ; look++ {
		w, parameter, err = m.tryDelete(id, look > looksForNews, began) // guard 11.3
		if !isOvertaken(err) {
			return w, parameter, err
		}
		if err := ctx.Err(); err != nil {
			return journal.Write{}, "", err
		}
	}
}

// isOvertaken reports whether another write was faster. It decides what this one finds, if
// anybody still asks.
func isOvertaken(err error) bool {
	return errors.Is(err, journal.ErrChanged) || errors.Is(err, errOvertaken)
}

// looksForNews is how often a DELETE looks at an entry that is known neither before nor
// after upstream was asked for it. An answer of upstream's is news. The journal usually
// keeps it, which makes the entry known, but not on a nearly full disk.
const looksForNews = 2

// tryDelete decides on one look at the entry, and journals the tombstone only if the
// entry is still as it was then. With askedBefore, an answer of upstream's is no news,
// and neither is any other change that leaves no trace here. The parameter is for the
// answer.
func (m *memory) tryDelete(
	id journal.ID, askedBefore bool, began time.Time,
) (w journal.Write, parameter string, err error) {
	lease := m.cache.Lease(entryKey(id))
	defer lease.Release()
	generation := m.cache.Generation(entryKey(id))
	state, err := m.journal.Lookup(id)
	if err != nil {
		return journal.Write{}, "", err
	}
	switch state.Kind {
	case journal.Gone: // guard 11.1
		return journal.Write{}, "", wire.NotFound(id.Namespace, id.Key)
	case journal.Settled:
		if isGone(m, id, &state, generation) {
			if err := bury(m, id); err != nil {
				return journal.Write{}, "", err
			}
			return journal.Write{}, "", wire.NotFound(id.Namespace, id.Key)
		}
	case journal.Unknown, journal.Absent:
		if parameter, err = m.mayExist(id, &state, generation, began); err != nil {
			return journal.Write{}, "", err
		}
	}
	w, err = m.store(journal.NewWrite{
		ID: id, Op: journal.Delete,
		If: func(newest uint64) bool {
			return newest == state.Seq && (!lease.Revoked() || askedBefore && leavesNoTrace(state.Kind)) // guard 11.2
		},
	})
	return w, parameter, err
}

// leavesNoTrace reports whether an entry of a kind may change upstream, and upstream may tell of
// it, without any record of that here.
func leavesNoTrace(k journal.Kind) bool { return k == journal.Unknown || k == journal.Absent }

// mayExist refuses with 404 an entry that is known to be absent. If that is not known, it
// asks upstream, and if upstream cannot be asked, or not in the time that is left of the
// caller's patience since the DELETE began, it goes by an older absence, or by the listing. The
// generation is the entry's from before it was looked up.
func (m *memory) mayExist(
	id journal.ID, state *journal.State, generation cache.Generation, began time.Time,
) (parameter string, err error) {
	key := entryKey(id)
	cached, _ := m.cache.Get(key)
	known := m.coherence.layView(id, state, cached)
	if known.present {
		return "", nil
	}
	item := known.item
	if freshness := m.judge(id.Namespace, anyAge, item, generation).freshness; freshness != cache.Fresh {
		from := newEntry(m, id, generation, false)
		got, err := m.fetches.wait(from, false, from.patience()-time.Since(began)) // guard 9.10
		switch {
		case err == nil:
			item = got.item(key)
		case !isUnavailable(err) || refusesCaller(err): // guard 11.4
			return "", err
		case freshness != cache.Fallback:
			return m.mayBeListed(id)
		}
	}
	if item.Body == nil {
		return "", wire.NotFound(id.Namespace, id.Key)
	}
	return "", nil
}

// refusesCaller reports whether upstream is there and says no. A 429 says that it has no
// time, which passes.
func refusesCaller(err error) bool {
	var said answered
	if !errors.As(err, &said) {
		return false
	}
	status, _ := said.Answer()
	return status != http.StatusTooManyRequests
}

// mayBeListed decides for an entry of which nothing else is known, by its namespace's
// listing, as long as a LIST would be answered with that. A listing that lacks nothing
// knows which entries upstream does not hold.
func (m *memory) mayBeListed(id journal.ID) (parameter string, err error) {
	l, listed, ok, err := m.coherence.shownInList(id)
	if err != nil {
		return "", err
	}
	if !ok || m.policy(id.Namespace).Judge(true, cache.Age(l.FetchedAt, time.Now())) == cache.Worthless {
		return assumed, nil
	}
	switch {
	case listed:
		return "", nil
	case l.Complete: // guard 11.6
		return "", wire.NotFound(id.Namespace, id.Key)
	}
	return assumed, nil
}
