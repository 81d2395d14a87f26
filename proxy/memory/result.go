package memory

import (
	"strconv"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// Verb is an operation of the memory API.
type Verb uint8

// The verbs. The metrics use their names.
const (
	NoVerb Verb = iota // not a request of the memory API
	GetEntry
	PutEntry
	DeleteEntry
	ListKeys
	Verbs // the number of verbs
)

var verbNames = [Verbs]string{GetEntry: "get", PutEntry: "put", DeleteEntry: "delete", ListKeys: "list"}

// String returns the verb's name in the metrics.
func (v Verb) String() string { return verbNames[v] }

// Request is a request of the memory API with valid names and a valid value.
type Request struct {
	Verb   Verb
	ID     journal.ID // without a key for a LIST
	Value  string     // of a PUT, or the text to append
	Limit  int        // of a LIST
	Author string     // of a write: see [journal.NewWrite]
	// Name, if not empty, is the caller's name for the request: a repetition of a PUT, a DELETE or an append
	// that has made a write is answered and makes no other. named is the journal's form.
	Name  string
	named *journal.Request
	Conditions
	Directives
	// Waits says that a write's caller prefers to wait, for at most Wait, until upstream has the write.
	Waits bool
	Wait  time.Duration
	// Together says that it is one of many: nobody waits for upstream to confirm this one.
	Together bool
	// Before, if not 0, makes a DELETE leave a state of this journal's write with that number, or of a
	// later one: it returns [ErrLater].
	Before uint64
	Trace  trace.Context // the caller's trace, or that of the span started for it
	// AtOnce refuses, with [ErrWaits] and before anything is done, a GET without a fresh answer here,
	// and a write that upstream carries out first. known is what such a GET has found, for the same request
	// without AtOnce.
	AtOnce bool
	known  *known
	// Extend, if not nil, is called before a write waits for upstream, with the maximum of that wait. If it
	// returns false, a write that is durable does not wait, and any other is refused.
	// Release, if not nil, is called once the value's room is no longer needed, at the latest before that
	// wait.
	Extend  func(most time.Duration) bool
	Release func()
}

func (q *Request) extend(most time.Duration) bool { return q.Extend == nil || q.Extend(most) }

func (q *Request) release() {
	if q.Release != nil {
		q.Release()
	}
}

// Statuses of results (RFC 9110, section 15; RFC 6585, section 4).
const (
	statusOK                 = 200
	statusNotModified        = 304
	statusBadRequest         = 400
	statusNotFound           = 404
	statusConflict           = 409
	statusPreconditionFailed = 412
	statusTooLarge           = 413
	statusUnprocessable      = 422
	statusTooManyRequests    = 429
	statusServerError        = 500
	statusUnavailable        = 503
	statusGatewayTimeout     = 504
)

// Source is the source of a read's answer, for Cache-Status (RFC 9211).
type Source uint8

// The sources. From FromUpstream on, upstream was asked.
const (
	FromCache    Source = iota // known here and fresh
	FromPending                // a write that upstream has not confirmed
	FromStale                  // known here but stale; upstream is asked in the background
	FromFallback               // known here, and upstream cannot be asked
	FromAssumed                // not known here, and upstream cannot be asked: assumed absent
	FromDataLoss               // known here, and upstream seems to have lost it
	FromOlder                  // known here, and upstream has answered with an older state
	FromUpstream               // nothing was known here
	FromExpired                // the local answer was too old
	FromDemand                 // the caller demanded upstream's answer
	Sources                    // the number of sources
)

// sourceNames holds each source's Cache-Status, its label in the metrics and its name in the monitor.
var sourceNames = [Sources]struct{ cacheStatus, label, monitor string }{
	FromCache:    {"botwired; hit", "hit", "memory"},
	FromPending:  {"botwired; hit; detail=pending", "pending", "pending"},
	FromStale:    {"botwired; hit; detail=stale-while-revalidate", "stale", "stale"},
	FromFallback: {"botwired; hit; detail=stale-if-error", "fallback", "fallback"},
	FromAssumed:  {"botwired; hit; detail=assume-absent", "assumed", "assumed"},
	FromDataLoss: {"botwired; hit; detail=data-loss", "data_loss", "data_loss"},
	FromOlder:    {"botwired; hit; detail=older-answer", "older", "older"},
	FromUpstream: {"botwired; fwd=miss", "miss", "upstream"},
	FromExpired:  {"botwired; fwd=stale", "expired", "upstream"},
	FromDemand:   {"botwired; fwd=request", "demanded", "upstream"},
}

// Result is the answer to a request of the memory API. Headers and body are data: the server writes them.
type Result struct {
	Status int // 0 if there is only an error
	Read   bool

	// Of a read.
	Source   Source
	Age      time.Duration // cache.Forever if unknown
	fromDisk bool          // the answer came from the journal, not from the cache
	item     *cache.Item

	// Of a write.
	id        journal.ID
	op        journal.Op
	shown     shown
	seq       uint64 // 0 if the journal had no room for the write
	state     string // pending, settled, superseded or dead
	awaited   bool   // the caller asked to wait for upstream
	confirmed bool   // the answer is upstream's: see Memory.confirm
	assumed   bool   // a DELETE of an entry that may not have existed
	tagged    bool
	applied   time.Duration // the caller's preferred wait, as granted; negative if there is none

	body []byte
}

// AppendHeader appends the result's header lines. No other code makes them.
func (r *Result) AppendHeader(dst []byte) []byte {
	switch {
	case r.Status == 0:
		return dst
	case r.Read:
		return r.appendReadHeader(dst)
	}
	dst = append(append(dst, "Botwired-Write: "...), r.state...)
	if r.assumed {
		dst = append(dst, "; assumed"...) // guard 11.5
	}
	if r.seq != 0 {
		dst = strconv.AppendUint(append(dst, "; seq="...), r.seq, 10)
	}
	dst = append(dst, "\r\n"...)
	if r.tagged {
		var tag [tagSize]byte
		dst = appendTagLines(dst, appendWriteTag(tag[:0], r.seq, r.shown.sum[:]))
	}
	if r.applied >= 0 {
		dst = strconv.AppendInt(append(dst, "Preference-Applied: wait="...), int64(r.applied/time.Second), 10)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

func (r *Result) appendReadHeader(dst []byte) []byte {
	// An answer has an Age if upstream was not asked for it (RFC 9111, section 5.1) and its age is known.
	if r.Source < FromUpstream && r.Age != cache.Forever { // guard 19.18
		dst = append(strconv.AppendInt(append(dst, "Age: "...), int64(min(r.Age, maxAge)/time.Second), 10), "\r\n"...)
	}
	if r.item.Incomplete { // guard 10.14
		dst = append(dst, "Botwired-List: incomplete\r\n"...)
	}
	dst = append(append(append(dst, "Cache-Status: "...), sourceNames[r.Source].cacheStatus...), "\r\n"...)
	if tag := r.item.Tag[0]; tag != "" {
		dst = appendTagLines(dst, tag)
	}
	return dst
}

// appendTagLines appends a tag in both headers that have it: gateways change the first.
func appendTagLines[T string | []byte](dst []byte, tag T) []byte {
	dst = append(append(append(dst, "Etag: "...), tag...), "\r\n"...)
	return append(append(append(dst, wire.OwnETag+": "...), tag...), "\r\n"...) // guard 5.40
}

// maxAge is the largest age in a header (RFC 9111, section 1.2.2).
const maxAge = time.Second << 31

// Body returns the body. It makes a write's body in room if room is large enough.
func (r *Result) Body(room []byte) []byte {
	switch {
	case r.body != nil || r.Read:
		return r.body
	case r.op == journal.Delete:
		return wire.AppendDeleted(room, r.id.Namespace, r.id.Key)
	}
	return wire.AppendStored(room, r.id.Namespace, r.id.Key, r.shown.characters)
}

// SetBody replaces the body. It drops the ETag, because the new body names the state itself.
func (r *Result) SetBody(body []byte) { r.body, r.tagged = body, false }

// How returns how a read was answered, or what became of a write.
func (r *Result) How() string {
	switch {
	case !r.Read:
		return r.state
	case r.fromDisk && r.Source == FromCache:
		return "disk"
	}
	return sourceNames[r.Source].monitor
}

// Outcome returns the result's outcome for the metrics.
func (r *Result) Outcome() Outcome {
	switch {
	case r.Read:
		return Outcome(r.Source)
	case r.confirmed:
		return WasThrough
	case r.awaited:
		return WasAwaited
	}
	return WasAcknowledged
}

// Outcome is what became of a request. The first outcomes are the sources of reads.
type Outcome uint8

// The outcomes. From WasRefused on, the request has failed.
const (
	WasAcknowledged  = Outcome(Sources) + iota // the write is durable here
	WasAwaited                                 // the write is durable here, and the caller asked to wait for upstream
	WasThrough                                 // upstream has carried the write out
	WasRefused                                 // refused here or by upstream
	WasFull                                    // the disk or the journal has no room
	WasNamespaceFull                           // the namespace is full
	WasUnavailable                             // upstream cannot be asked, but has to be
	WasFailed                                  // a fault of the daemon
	WasEnded                                   // the daemon is stopping, or the caller has gone
	Outcomes                                   // the number of outcomes
)

var outcomeNames = func() (names [Outcomes]string) {
	for from, of := range sourceNames {
		names[from] = of.label
	}
	for o, name := range map[Outcome]string{
		WasAcknowledged: "acknowledged", WasAwaited: "awaited", WasThrough: "through", WasRefused: "refused", WasFull: "full",
		WasNamespaceFull: "namespace_full", WasUnavailable: "unavailable", WasFailed: "failed", WasEnded: "ended",
	} {
		names[o] = name
	}
	return names
}()

// String returns the outcome's name in the metrics.
func (o Outcome) String() string { return outcomeNames[o] }
