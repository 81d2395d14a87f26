package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/journal"
)

// Engine is the store that keeps the memory upstream, as far as the [Flusher] and the
// [Reader] need it. Its methods make one request each: an engine does not retry, and it
// waits no longer than a time of its own. They may be called concurrently, but never two
// writes to one entry at a time.
//
// Errors are *[Error]: the engine decides what an answer means. The flusher and the reader
// take any other error for [Unanswered], as it says nothing of the request.
//
// BotWire has neither revisions nor a way to watch entries, so nothing here asks for them. An engine
// that has them offers them in interfaces of their own beside this one. [Versions] are for
// the flusher: a write takes place only over a known revision. A view of all entries, which changes
// as they do, is for the proxy, which defines it. The flusher and the proxy get them as options
// of their own, and do without them where there are none.
type Engine interface {
	// Get asks for an entry; nil without an error means that upstream does not hold it.
	Get(ctx context.Context, id journal.ID) (*journal.Observation, error)
	// List asks for all keys of a namespace that the engine can list; complete is false
	// if there may be more.
	List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error)
	// Put writes an entry. It returns nil only if upstream itself confirms that it holds
	// the value under the entry's own name (contract 13).
	Put(ctx context.Context, id journal.ID, value string) error
	// Delete removes an entry. It returns nil only if upstream itself confirms that it
	// does not hold the entry; held says whether it did before.
	Delete(ctx context.Context, id journal.ID) (held bool, err error)
}

// Error says why a request brought no usable answer, and what that means.
type Error struct {
	// Verdict is what the failure means; never [Confirmed].
	Verdict Verdict
	// Reason is for people. It never holds a value.
	Reason string
	// RetryAfter is how long upstream asked to wait; 0 when it did not.
	RetryAfter time.Duration
	// Unreachable says that no request gets to the service: there was not even a connection,
	// or it leads elsewhere.
	Unreachable bool
	// Answered says that the service itself has answered, and nobody in its place.
	Answered bool
	// NamespaceFull says that upstream refuses a write as its namespace holds as much as it
	// may.
	NamespaceFull bool
	// Overloaded says that the service, or somebody on the way, has too much to do.
	Overloaded bool
	// Status is the engine's own number for the answer, for a person who reads the dead
	// letter; 0 when there is none.
	Status int
	// Answer is upstream's answer to a read, with Status, in the form in which a caller
	// of the memory API may be given it; nil if a caller may not.
	Answer []byte

	unasked bool // no request was made, as others have failed
}

func (e *Error) Error() string { return e.Reason }

// says reports whether a request has brought upstream's own word, which shows that upstream
// is well: a refusal of the request is such a word, and so is success, a nil error.
func (e *Error) says() bool { return e == nil || e.Answered && !e.Verdict.blamesUpstream() }

// errorOf is the failure of a request; nil if there is none.
func errorOf(err error) *Error {
	if err == nil {
		return nil
	}
	var failed *Error
	if errors.As(err, &failed) {
		return failed
	}
	return &Error{Verdict: Unanswered, Reason: err.Error()}
}

// Verdict is the class of a request's outcome (contract 15).
type Verdict uint8

// The verdicts. The engine decides between them; the flusher and the reader know no
// other difference between one failure and another.
const (
	// Confirmed: upstream says itself that it has carried the request out.
	Confirmed Verdict = iota
	// Transient: upstream, or something that answers in its place, failed. Try again.
	Transient
	// Unsent: the request cannot have reached upstream. Try again.
	Unsent
	// Unanswered: the request was sent, and upstream may still carry it out.
	Unanswered
	// Throttled: upstream takes no more requests for this namespace for now.
	Throttled
	// Paused: upstream does not let this namespace in; only a person can change that.
	Paused
	// Permanent: upstream will never carry out this request.
	Permanent
)

// String is the verdict as metrics name it.
func (v Verdict) String() string {
	return [...]string{"confirmed", "transient", "unsent", "unanswered", "throttled", "paused", "permanent"}[v]
}

// blamesUpstream reports whether the verdict says more of upstream than of the request.
func (v Verdict) blamesUpstream() bool { return v == Transient || v == Unsent || v == Unanswered }
