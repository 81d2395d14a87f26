package upstream

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/botwired/botwired/journal"
)

// Engine is the store that keeps the memory upstream, as far as the [Flusher] and the
// [Reader] need it. Its methods make one request each: an engine does not retry, and it
// waits no longer than a time of its own. They may be called concurrently, but never two
// writes to one entry at a time.
//
// Errors are *[Error]: the engine decides what an answer means. Those of Swap are *[Conflict] too.
// The flusher and the reader take any other error for [Unanswered], as it says nothing of the request.
//
// A view of all entries, which changes as they do, is for the proxy, which defines it.
type Engine interface {
	// Exact reports whether Swap compares: a write takes place only over the version that it is
	// based on, so that no write can land late over another one. A delete then leaves a tombstone,
	// whatever it replaces. An engine that is not exact carries out each write over whatever there
	// is: its caller reads the entry right before.
	Exact() bool
	// Known returns an entry's last version without its value, as far as the engine knows it
	// without asking. It may be old: Swap finds out. ok is false if the engine must be asked.
	Known(id journal.ID) (v Version, ok bool)
	// Get asks for an entry's last version. It may be old by the time it arrives.
	Get(ctx context.Context, id journal.ID) (Version, error)
	// List asks for all keys of a namespace that the engine can list; complete is false
	// if there may be more.
	List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error)
	// Swap carries out a write, and returns the version that it has become, as far as the engine
	// knows it: nothing, if a delete found nothing and leaves no tombstone. It returns no error only if
	// upstream itself confirms that it holds the value under the entry's own name, or no longer
	// holds the entry (contract 13). After an error that is no [Conflict] the write may have been
	// carried out, or may yet be; by an exact engine never once another version has replaced p.Over.
	Swap(ctx context.Context, p Proposal) (Version, error)
}

// Version is what an engine holds of an entry: a value, or the tombstone that a delete has left.
type Version struct {
	// Revision is the engine's own number of the version. An entry's revisions grow. It is 0
	// if the engine holds nothing of the entry, and all other fields are zero then.
	Revision  uint64
	Deleted   bool    // it is a tombstone
	Value     string  // empty of a tombstone, and from [Engine.Known]
	ListBytes int     // the size that a listing shows
	CreatedAt float64 // Unix seconds: when the entry was put first, or first after a delete
	WrittenAt float64 // Unix seconds: when its writer wrote it, or upstream got it; a reader's updated_at
	Writer    Writer  // zero if the engine does not know it
}

// Writer names one write among those of all hosts. A copied data directory has the host's name
// too: two writes are the same only if their contents and times are.
type Writer struct {
	Host string // of one data directory
	Seq  uint64 // the write's sequence number there; 0 if it has none
}

// Unix returns a time of the wall clock in BotWire's unit.
func Unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// Micros returns a time in Unix seconds as an engine keeps it: in whole microseconds.
func Micros(seconds float64) int64 { return int64(math.Round(seconds * 1e6)) }

// Present reports whether the version is a value.
func (v *Version) Present() bool { return v.Revision != 0 && !v.Deleted }

// Observation returns a version that is known with its value as a reader sees it; nil if it is no value.
func (v *Version) Observation() *journal.Observation {
	if !v.Present() {
		return nil
	}
	return &journal.Observation{Value: v.Value, ListBytes: v.ListBytes, CreatedAt: v.CreatedAt, UpdatedAt: v.WrittenAt}
}

// Content is what a version leaves of its entry, if it is known with its value.
func (v *Version) Content() journal.Content {
	if !v.Present() {
		return journal.ContentOf(journal.Delete, "")
	}
	return journal.ContentOf(journal.Put, v.Value)
}

// Proposal is a write that an engine is asked to carry out.
type Proposal struct {
	journal.ID
	Op        journal.Op
	Value     string
	ListBytes int
	WrittenAt float64 // Unix seconds, with microseconds
	Writer    Writer
	// Over is the version that the write replaces. An exact engine needs its revision, which
	// must still be the entry's last one, and created_at.
	Over Version
}

// Conflict says that an entry's last version is another one than a [Proposal] was to replace.
// After a lost answer it may be the proposal's own.
type Conflict struct {
	// Now is the version that was the last one. It is nil if the engine does not say: several
	// writes to the entry are under way, and to ask again at once would only add to them.
	Now *Version
}

func (c *Conflict) Error() string { return "upstream holds another version of the entry" }

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

// Says reports whether a request has brought upstream's own word, which shows that upstream
// is well: a refusal of the request is such a word, and so is success, a nil error.
func (e *Error) Says() bool { return e == nil || e.Answered && !e.Verdict.BlamesUpstream() }

// PushesBack reports whether a failure may mean that upstream has too much to do.
func (e *Error) PushesBack() bool {
	return e != nil && (e.Verdict == Unanswered || e.Overloaded) // guard 16.11
}

// ErrorOf is the failure of a request; nil if there is none.
func ErrorOf(err error) *Error {
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

// BlamesUpstream reports whether the verdict says more of upstream than of the request.
func (v Verdict) BlamesUpstream() bool { return v == Transient || v == Unsent || v == Unanswered }
