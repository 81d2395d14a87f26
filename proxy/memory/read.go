package memory

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// fallbackAfter is how long a read waits for upstream if it has an old answer to fall back on. The request
// upstream goes on.
const fallbackAfter = time.Second

var errNotCached = wire.Detail(statusGatewayTimeout, "not cached, and the request says only-if-cached")

// known is what one look has shown to be known here of an entry, or of a namespace's listing: the answer, and
// how far a reader may use it.
type known struct {
	item       *cache.Item      // nil if there is no answer
	generation cache.Generation // of the key, from before the look
	freshness  cache.Freshness
	age        time.Duration
	excluded   bool // a directive of the reader excludes the item
	disk       bool // the item came from the journal, not from the cache

	// Of an entry:
	inJournal bool          // the look was in the journal, too
	state     journal.State // the journal's; it has the number of a pending write
	mayExist  bool          // nothing is known except that upstream may hold the entry
	held      bool          // a caught-up view has a version whose value is not here
	deleted   bool          // the entry was deleted upstream after the local copy: see dropDeleted
}

// assess judges an answer by the policy and a reader's directives.
func (m *Memory) assess(namespace string, d Directives, k *known) {
	item := k.item
	if item == nil {
		k.freshness = cache.Worthless
		return
	}
	now, policy := time.Now(), m.policy(namespace)
	asked, holds := m.view.confirmedAt(item)
	unlimited := policy
	if holds && !item.Incomplete { // an incomplete list changes when one of its keys goes
		unlimited.FreshFor, unlimited.AbsentFor = cache.Forever, cache.Forever
	}
	k.freshness, k.age, k.excluded = d.freshness(unlimited, item, asked, now)
	if item.Outdated && k.freshness < cache.Fallback {
		k.freshness = policy.Doubted() // even if the caller accepts stale answers
	}
	if !item.DoubtedAt.IsZero() && !k.excluded && cache.Age(item.DoubtedAt, now) < policy.FreshFor {
		k.freshness = cache.Fresh // upstream was just asked, and its answer did not count
	}
}

// doubted maps the reason why upstream's answer did not count to the source of the answer that is given
// instead.
var doubted = [...]Source{journal.DataLoss: FromDataLoss, journal.OlderAnswer: FromOlder} // guard 7.30, 9.59

// answer returns the item as the result of a read that did not ask upstream. It sets no status.
func (k *known) answer() Result {
	r := Result{Read: true, Source: FromCache, Age: k.age, fromDisk: k.disk, item: k.item}
	switch {
	case k.item == nil:
	case k.item.ConfirmedAt.IsZero():
		r.Source, r.Age, r.fromDisk = FromPending, 0, false
	case k.item.Doubt != uint8(journal.NotRejected):
		r.Source = doubted[k.item.Doubt]
	}
	return r
}

// askUpstream answers a read without a fresh local answer. A stale answer is returned at once, and
// upstream is asked in the background. Otherwise upstream's answer is returned, or else an old one, or
// a 404 where the settings assume it.
func (m *Memory) askUpstream(d Directives, k known, from resource) (Result, error) {
	r := k.answer()
	switch {
	case k.freshness == cache.Stale:
		m.fetches.refresh(from)
		if r.Source == FromCache {
			r.Source = FromStale
		}
		return r, nil
	case d.onlyIfCached:
		return Result{}, errNotCached
	}
	got, err := m.fetchFor(k.freshness, from)
	key := from.key()
	switch {
	case err == nil && got.overtaken:
		newer := known{item: got.item(key)}
		m.assess(key.Namespace, d, &newer)
		return newer.answer(), nil
	case err == nil && got.doubt != journal.NotRejected:
		item := got.item(key)
		return Result{Read: true, Source: doubted[got.doubt], Age: cache.Age(item.ConfirmedAt, time.Now()), item: item}, nil
	case err == nil:
		return Result{Read: true, Source: k.askedBecause(), item: got.item(key)}, nil
	case isHeld(err) && (k.item == nil || k.item.Body == nil): // guard 23.28
		return Result{}, err // it is not absent
	case k.freshness == cache.Fallback && isNoAnswer(err):
		r.Source = FromFallback
		return r, nil
	case mayAssumeAbsent(key, d, &k) && isOutage(err):
		if !m.assumesAbsent(key.Namespace) {
			return Result{}, Unassumed{err}
		}
		return Result{Read: true, Source: FromAssumed, Age: cache.Forever, item: &cache.Item{}}, nil
	}
	if k.excluded && isUnavailable(err) {
		err = UnusedCopy{err}
	}
	return Result{}, err
}

// UnusedCopy is the error for a reader whose directives exclude the local copy while upstream cannot be
// asked.
type UnusedCopy struct{ error }

func (u UnusedCopy) Unwrap() error { return u.error }

// Unassumed is the error for a reader of an unknown entry in an outage, in a namespace whose settings could
// make it a 404.
type Unassumed struct{ error }

func (u Unassumed) Unwrap() error { return u.error }

// fetchFor asks upstream for a reader. A reader with an old answer waits only briefly, and not for an outage
// to end. Without one, it waits out a short outage.
func (m *Memory) fetchFor(freshness cache.Freshness, from resource) (fetched, error) {
	if freshness == cache.Fallback {
		return m.fetches.wait(from, false, min(fallbackAfter, m.fetches.patience(from)))
	}
	return m.fetches.wait(from, true, m.fetches.patience(from))
}

func (k *known) askedBecause() Source {
	switch {
	case k.item == nil:
		return FromUpstream
	case k.excluded:
		return FromDemand
	}
	return FromExpired
}

// isNoAnswer reports whether err means that upstream gave no usable answer, or that the daemon is
// stopping, rather than that the daemon failed.
func isNoAnswer(err error) bool { return isUnavailable(err) || errors.Is(err, context.Canceled) }

// isHeld reports whether upstream holds the entry, with a value that is refused.
func isHeld(err error) bool {
	var failed interface{ Held() bool }
	return errors.As(err, &failed) && failed.Held()
}

func isUnavailable(err error) bool {
	_, ok := RetryAfter(err)
	return ok
}

// RetryAfter returns how long to wait before asking upstream again; ok is false if err is not about upstream.
func RetryAfter(err error) (wait time.Duration, ok bool) {
	var later interface{ RetryAfter() time.Duration }
	if ok = errors.As(err, &later); ok {
		wait = later.RetryAfter()
	}
	return wait, ok
}

// Answered is an error that carries upstream's own answer.
type Answered interface {
	RetryAfter() time.Duration // 0 if upstream gave no time
	Answer() (status int, body []byte)
}

// answeredStatus returns the status of upstream's own answer; ok is false if err carries none.
func answeredStatus(err error) (status int, ok bool) {
	var said Answered
	if ok = errors.As(err, &said); ok {
		status, _ = said.Answer()
	}
	return status, ok
}

// IsNamespaceFull reports whether a write was refused because its namespace is full.
func IsNamespaceFull(err error) bool {
	_, ok := errors.AsType[*journal.NamespaceFullError](err)
	return ok
}

// mayAssumeAbsent reports whether an unknown entry may be answered 404 if its namespace is configured so. An
// entry is not unknown if a listing has it. A caller that demands upstream's answer gets no
// other.
func mayAssumeAbsent(key cache.Key, d Directives, k *known) bool {
	unknown := k.item == nil || k.item.Body == nil
	return key.Key != "" && unknown && !k.mayExist && !d.narrow() // guard 9.27
}

// isOutage reports whether upstream did not answer at all, not even with a refusal.
func isOutage(err error) bool {
	_, answered := answeredStatus(err)
	return isUnavailable(err) && !answered
}
