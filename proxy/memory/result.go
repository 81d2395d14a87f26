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

// The verbs, as the metrics name them.
const (
	NoVerb Verb = iota // the request is none of the memory API's
	GetEntry
	PutEntry
	DeleteEntry
	ListKeys
	Verbs // their number
)

var verbNames = [Verbs]string{GetEntry: "get", PutEntry: "put", DeleteEntry: "delete", ListKeys: "list"}

// String returns the verb as the metrics name it.
func (v Verb) String() string { return verbNames[v] }

// Request is a request of the memory API whose names and value are valid.
type Request struct {
	Verb  Verb
	ID    journal.ID // without a key for a LIST
	Value string     // of a PUT, or the text of an append
	Limit int        // of a LIST
	Conditions
	Directives
	// Waits says that the caller of a write prefers to wait, for at most Wait, until upstream has it.
	Waits bool
	Wait  time.Duration
	Trace trace.Context // the caller's, or the span's that was begun for it
	// AtOnce has a request that would have to wait for upstream refused with [ErrWaits], before
	// anything is done.
	AtOnce bool
	// Extend is called before a write waits for upstream, with the most that this takes. Release is
	// called once nobody else need wait for the value's room, at the latest before that wait. Both may be
	// nil.
	Extend  func(most time.Duration)
	Release func()
}

func (q *Request) extend(most time.Duration) {
	if q.Extend != nil {
		q.Extend(most)
	}
}

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
	statusPreconditionFailed = 412
	statusTooLarge           = 413
	statusUnprocessable      = 422
	statusTooManyRequests    = 429
	statusGatewayTimeout     = 504
)

// Source is where the answer to a read is from, for Cache-Status (RFC 9211).
type Source uint8

// The sources. Upstream was asked for the answers from FromUpstream on.
const (
	FromCache    Source = iota // known here and fresh
	FromPending                // a write that upstream has not confirmed
	FromStale                  // known here, and asked for anew in the background
	FromFallback               // known here, and upstream cannot be asked
	FromAssumed                // not known here, and upstream cannot be asked: taken for absent
	FromDataLoss               // known here, and upstream seems to have lost it
	FromOlder                  // known here, and upstream has answered with an older state
	FromUpstream               // nothing was known here
	FromExpired                // the answer known here was too old
	FromDemand                 // the caller demanded it
	Sources                    // their number
)

// sourceNames has the names of each source: its Cache-Status, its label in the metrics, and its name
// in the monitor.
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

// Result is the answer to a request of the memory API. Its header and its body are data: who sent the
// request writes them.
type Result struct {
	Status int // 0 if there is no result but an error
	Read   bool

	// Of a read.
	Source   Source
	Age      time.Duration // cache.Forever if nobody knows it
	fromDisk bool          // the journal had the answer, and the cache had not
	item     *cache.Item

	// Of a write.
	id      journal.ID
	op      journal.Op
	value   string
	seq     uint64 // 0 if the journal had no room for it
	state   string // pending, settled, superseded or dead
	awaited bool   // the caller has waited for upstream
	through bool   // upstream has carried the write out before it was journaled
	assumed bool   // a DELETE: nobody knows whether the entry existed
	tagged  bool
	applied time.Duration // the wait that the caller prefers and gets; negative if it prefers none

	body []byte
}

// AppendHeader appends the lines of the result's header. No other place makes them.
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
		dst = append(appendWriteTag(append(dst, "Etag: "...), r.seq, r.value), "\r\n"...)
	}
	if r.applied >= 0 {
		dst = strconv.AppendInt(append(dst, "Preference-Applied: wait="...), int64(r.applied/time.Second), 10)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

func (r *Result) appendReadHeader(dst []byte) []byte {
	// An answer has an Age if upstream was not asked for it (RFC 9111, section 5.1), unless nobody knows it.
	if r.Source < FromUpstream && r.Age != cache.Forever { // guard 19.18
		dst = append(strconv.AppendInt(append(dst, "Age: "...), int64(min(r.Age, maxAge)/time.Second), 10), "\r\n"...)
	}
	if r.item.Incomplete { // guard 10.14
		dst = append(dst, "Botwired-List: incomplete\r\n"...)
	}
	dst = append(append(append(dst, "Cache-Status: "...), sourceNames[r.Source].cacheStatus...), "\r\n"...)
	if tag := r.item.Tag[0]; tag != "" {
		dst = append(append(append(dst, "Etag: "...), tag...), "\r\n"...)
	}
	return dst
}

// maxAge is the largest age that is put in a header (RFC 9111, section 1.2.2).
const maxAge = time.Second << 31

// Body returns the body. It makes that of a write in room, if that is large enough.
func (r *Result) Body(room []byte) []byte {
	switch {
	case r.body != nil || r.Read:
		return r.body
	case r.op == journal.Delete:
		return wire.AppendDeleted(room, r.id.Namespace, r.id.Key)
	}
	return wire.AppendStored(room, r.id.Namespace, r.id.Key, wire.CodePoints(r.value))
}

// SetBody replaces the body. The header then names no state of the entry: the body does.
func (r *Result) SetBody(body []byte) { r.body, r.tagged = body, false }

// How names for a person how a read was answered, or what has become of a write.
func (r *Result) How() string {
	switch {
	case !r.Read:
		return r.state
	case r.fromDisk && r.Source == FromCache:
		return "disk"
	}
	return sourceNames[r.Source].monitor
}

// Outcome returns the result as the metrics name it.
func (r *Result) Outcome() Outcome {
	switch {
	case r.Read:
		return Outcome(r.Source)
	case r.through:
		return WasThrough
	case r.awaited:
		return WasAwaited
	}
	return WasAcknowledged
}

// Outcome is what became of a request. The first ones are the sources of reads.
type Outcome uint8

// The outcomes. With those from WasRefused on, the request has failed.
const (
	WasAcknowledged  = Outcome(Sources) + iota // the write is durable here
	WasAwaited                                 // the same, and the caller has waited for upstream
	WasThrough                                 // upstream has carried the write out
	WasRefused                                 // the request itself is refused, here or by upstream
	WasFull                                    // the disk or the journal has no room
	WasNamespaceFull                           // the namespace holds as much as it may
	WasUnavailable                             // upstream would have to be asked, and cannot be
	WasFailed                                  // the daemon's own fault
	WasEnded                                   // the daemon stops, or the caller has gone
	Outcomes                                   // their number
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

// String returns the outcome as the metrics name it.
func (o Outcome) String() string { return outcomeNames[o] }
