package upstream

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/botwired/botwired/journal"
)

// Engine is the store that keeps the memory upstream, as the flusher and the [Reader] need it. Each
// method makes one request, without retries and with the engine's own timeout. Methods may be called
// concurrently, except two writes to one entry.
//
// Errors are *[Error]: the engine decides what an answer means. Swap also returns *[Conflict]. The
// flusher and the reader treat any other error as [Unanswered], because it says nothing about the
// request.
//
// [Backend] adds what only some engines can do.
type Engine interface {
	// Exact reports whether Swap compares: a write succeeds only over the version that it is based on,
	// so no write can land late over another one. A delete then always leaves a tombstone. An engine
	// that is not exact carries out each write over any version; its caller reads the entry right
	// before.
	Exact() bool
	// Named reports whether the versions of a namespace name their writer and the time when it made them,
	// so that a fence compares true versions. Those of an exact engine always do.
	Named(namespace string) bool
	// Known returns an entry's last version without its value, if the engine knows it without a
	// request. The version may be old: the Swap of an exact engine detects that. ok is false if
	// upstream must be asked.
	Known(id journal.ID) (v Version, ok bool)
	// Get asks for an entry's last version. The answer may be old when it arrives.
	Get(ctx context.Context, id journal.ID) (Version, error)
	// List asks for all keys of a namespace that the engine can list; complete is false if there may be
	// more.
	List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error)
	// Swap carries out a write, and returns the resulting version, as far as the engine knows it. The
	// version is empty if a delete found nothing and leaves no tombstone. Success means that upstream
	// itself confirms, by the entry's own name, that it holds the value, or does not hold the entry
	// (contract 13). After an error that is no [Conflict] the write may have been carried out, or still
	// may be. An exact engine never carries out the write once another version has replaced p.Over.
	Swap(ctx context.Context, p Proposal) (Version, error)
}

// Version is the state of an entry in an engine: a value, or the tombstone that a delete left.
type Version struct {
	// Revision is the engine's own number of the version; it grows with each version of the entry. It
	// is 0 if the engine holds nothing of the entry, or does not know the version's number.
	Revision  uint64
	Deleted   bool    // it is a tombstone
	Value     string  // empty for a tombstone, and from [Engine.Known]
	ListBytes int     // the size that a listing gives
	CreatedAt float64 // Unix seconds: when the entry was first put, or first put after a delete
	WrittenAt float64 // Unix seconds: when the writer wrote the version, or upstream received it; updated_at for readers
	// MadeAt is the time that the version names, in Unix seconds by its writer's clock, if WrittenAt is
	// when upstream received it; otherwise 0.
	MadeAt float64
	// Date is when upstream answered with the version, by its own clock and with whole seconds; zero if the
	// answer does not say. Only versions that name no writer need it.
	Date   time.Time
	Writer Writer // zero if the engine does not know it
	Author string // see [journal.NewWrite]; empty from [Engine.Known], and if the engine does not know it
}

// Writer identifies one write among those of all hosts. A machine that is cloned while its daemon runs goes on under
// the same name: two writes are the same only if their contents and times are the same, too.
type Writer struct {
	Host string // identifies one start of a daemon
	Seq  uint64 // the write's sequence number in its data directory; 0 if it has none
}

// Earlier holds the names under which earlier daemons of a data directory have written. Each name has the last
// number that the journal had given when the next daemon started. If a copy of the directory goes on under that
// name, its later writes are another host's (contract 19).
type Earlier map[string]uint64

// Of returns a writer, under the present name of this host if that is one of the earlier daemons.
func (e Earlier) Of(w Writer, host string) Writer {
	if last, ok := e[w.Host]; ok && w.Seq <= last { // guard 19.34
		w.Host = host
	}
	return w
}

// Unix returns t in BotWire's unit, Unix seconds.
func Unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// Micros converts Unix seconds to whole microseconds, as engines store times.
func Micros(seconds float64) int64 { return int64(math.Round(seconds * 1e6)) }

// Present reports whether the version is a value.
func (v *Version) Present() bool { return v.Revision != 0 && !v.Deleted }

// Observation returns the version as a reader sees it; nil if it is no value. The value must be known.
func (v *Version) Observation() *journal.Observation {
	if !v.Present() {
		return nil
	}
	return &journal.Observation{
		Value: v.Value, ListBytes: v.ListBytes, CreatedAt: v.CreatedAt, UpdatedAt: v.WrittenAt, MadeAt: v.MadeAt,
		Author: v.Author, Host: v.Writer.Host,
	}
}

// Content returns the entry's content after this version. The value must be known.
func (v *Version) Content() journal.Content {
	if !v.Present() {
		return journal.ContentOf(journal.Delete, "")
	}
	return journal.ContentOf(journal.Put, v.Value)
}

// Proposal is a write for an engine to carry out.
type Proposal struct {
	journal.ID
	Op        journal.Op
	Value     string
	ListBytes int
	WrittenAt float64 // Unix seconds, with microseconds
	Writer    Writer
	Author    string // see [journal.NewWrite]
	// Over is the version that the write replaces. An exact engine needs its revision, which must still
	// be the entry's last one, and its CreatedAt.
	Over Version
}

// Conflict says that an entry's last version is not the one that a [Proposal] was to replace. After a
// lost answer, that version may be the proposal itself.
type Conflict struct {
	// Now is the last version, with its value. It is nil if the engine does not say: several writes to
	// the entry are in flight, and asking again at once would only add to them.
	Now *Version
}

func (c *Conflict) Error() string { return "upstream holds another version of the entry" }

// Error says why a request got no usable answer, and what that means.
type Error struct {
	// Verdict is the class of the failure; never [Confirmed].
	Verdict Verdict
	// Reason is for people. It never holds a value.
	Reason string
	// RetryAfter is how long upstream asked to wait; 0 if it did not.
	RetryAfter time.Duration
	// Unreachable says that no request reaches the service now: for example, there is no connection, or
	// upstream.url leads back to this daemon.
	Unreachable bool
	// Answered says that the service itself answered, not something in its place.
	Answered bool
	// Held says that upstream holds a value that is refused.
	Held bool
	// NamespaceFull says that upstream refuses a put because its namespace is full; Verdict is then [Paused].
	NamespaceFull bool
	// Overloaded says that the service, or something in between, has too much to do.
	Overloaded bool
	// Status is the engine's own number for the answer, for a person who reads the dead letter; 0 if
	// there is none.
	Status int
	// Answer is upstream's answer, with Status, in the form that a caller of the memory API may get;
	// nil if a caller may not get it.
	Answer []byte

	unasked bool // no request was made, because others have failed
}

func (e *Error) Error() string { return e.Reason }

// Says reports whether upstream itself answered in a way that shows it is healthy: with success (a nil
// error), or with its own refusal of the request.
func (e *Error) Says() bool { return e == nil || e.Answered && !e.Verdict.BlamesUpstream() }

// PushesBack reports whether the failure may mean that upstream has too much to do.
func (e *Error) PushesBack() bool {
	return e != nil && (e.Verdict == Unanswered || e.Overloaded) // guard 16.11
}

// ErrorOf returns err as an *Error; nil if err is nil. Any other error becomes [Unanswered].
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed
	}
	return &Error{Verdict: Unanswered, Reason: err.Error()}
}

// Verdict is the class of a request's outcome (contract 15).
type Verdict uint8

// The engine chooses the verdict, and the flusher and the reader act on it.
const (
	// Confirmed: upstream itself says that it has carried the request out.
	Confirmed Verdict = iota
	// Transient: upstream, or something that answers in its place, failed. Retry.
	Transient
	// Unsent: the request cannot have reached upstream. Retry.
	Unsent
	// Unanswered: the request was sent, and upstream may still carry it out.
	Unanswered
	// Throttled: upstream asks to wait before the next request for this namespace.
	Throttled
	// Paused: upstream refuses this namespace's requests; only a person can change that.
	Paused
	// Permanent: upstream will never carry out this request. After such a read, the flusher sends the
	// write uncompared: a version that is there and cannot be read is Paused.
	Permanent
)

// String returns the verdict's name in metrics.
func (v Verdict) String() string {
	return [...]string{"confirmed", "transient", "unsent", "unanswered", "throttled", "paused", "permanent"}[v]
}

// BlamesUpstream reports whether the verdict says more about upstream than about the request.
func (v Verdict) BlamesUpstream() bool { return v == Transient || v == Unsent || v == Unanswered }
