// Package memory decides how to answer BotWire's memory API: it owns the order of reads and writes.
//
// A [Request] has checked names and a checked value. A [Result] is data: a status, headers, a body. The
// package knows nothing of HTTP, of Pebble, of retries, or of how upstream is reached.
//
// A read looks for its answer in the cache, then among the pending writes, then in the settled copy if
// that is fresh, or in a listing that lacks the entry. Last, it asks upstream, with one request for all
// waiting readers. It drops upstream's answer if a write came in between. The cache may come first,
// because no write is visible before the cache has dropped the answers that it makes old: the journal
// announces each change while it holds its lock, and the announcement advances the generation of all
// earlier answers (contract 6). A write is journaled and acknowledged. In a write-through namespace, the
// acknowledgement waits until upstream has confirmed it.
package memory

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// Memory is BotWire's memory API: GET, PUT and DELETE of entries, and LIST. read.go has the order of a read.
// entry.go and listing.go have the resources, write.go and delete.go the writes, and confirm.go those whose
// answer waits for upstream. Its methods may be called concurrently.
type Memory struct {
	journal  *journal.Journal
	cache    *cache.Cache
	upstream Upstream
	flusher  Flusher
	view     *upstreamView
	check    func(id journal.ID, value string) *wire.Refusal // Options.Check
	exact    bool                                            // upstream carries a write out only over the state that it is based on
	// revisions and host are Options.Revisions and Options.Host.
	revisions func(ctx context.Context, id journal.ID) ([]Version, error)
	host      string
	policy    func(namespace string) cache.Policy
	// writesThrough reports whether a namespace writes through, and confirmWithin how long its writers wait.
	writesThrough func(namespace string) bool
	confirmWithin time.Duration
	assumesAbsent func(namespace string) bool // for an unknown entry while upstream cannot be asked
	tasks         *tasks.Tasks
	fetches       *fetches
	turns         *turns // of appends, and of repetitions
	traces        *trace.Writes
	changes       *changeQueue
	lister        *listKeeper
	repairs       *repairs
}

// Options configures a memory.
type Options struct {
	Journal  *journal.Journal
	Cache    *cache.Cache
	Upstream Upstream
	Flusher  Flusher
	// Policy returns how long a namespace's answers are good.
	Policy func(namespace string) cache.Policy
	// WriteThrough reports whether a namespace's writes are acknowledged only once upstream has them; nil for
	// none.
	WriteThrough func(namespace string) bool
	// ConfirmWithin is how long such a write waits for upstream, unless its caller prefers another time.
	ConfirmWithin time.Duration
	// Prefetch reports whether a namespace's values are fetched before anybody reads them. AssumeAbsent
	// reports whether an unknown entry is answered 404 while upstream cannot be asked. nil means none.
	Prefetch, AssumeAbsent func(namespace string) bool
	// View has upstream's state of all entries; nil if upstream does not report changes. While the view
	// has caught up, no answer gets old (see upstreamview.go).
	View View
	// Exact says that upstream carries out a write with [journal.NewWrite.Over] only over that state, so that
	// its condition holds across all hosts, and that upstream keeps the writes' own times.
	Exact bool
	// Revisions returns the versions of an entry that upstream keeps, the present one first. Seq is only in
	// this daemon's. An error has a method RetryAfter() time.Duration if upstream cannot be asked now. It is
	// nil if upstream keeps none.
	Revisions func(ctx context.Context, id journal.ID) ([]Version, error)
	// Host is the name under which this daemon writes; empty if upstream does not tell hosts apart.
	Host string
	// Check returns why a sealed namespace takes no write or, with an empty value, no read of an entry. It is nil
	// if no namespace is sealed.
	Check func(id journal.ID, value string) *wire.Refusal
	// Traces keeps the traces of writes until they are sent; nil without tracing.
	Traces *trace.Writes
	// Tasks counts the requests in flight.
	Tasks *tasks.Tasks
	// Metrics counts the fetches of entries that other hosts have changed.
	Metrics *metrics.Metrics
	// Logger must not be nil. No value is ever logged.
	Logger *slog.Logger
}

// New returns a memory. It works in the background only for requests and in Run.
func New(opts Options) *Memory {
	if opts.Traces == nil {
		opts.Traces = trace.NewWrites()
	}
	none := func(string) bool { return false }
	for _, of := range []*func(string) bool{&opts.WriteThrough, &opts.Prefetch, &opts.AssumeAbsent} {
		if *of == nil {
			*of = none
		}
	}
	m := &Memory{
		journal: opts.Journal, cache: opts.Cache, upstream: opts.Upstream, flusher: opts.Flusher,
		view: &upstreamView{opts.View, opts.Journal}, exact: opts.Exact, revisions: opts.Revisions, host: opts.Host,
		check: opts.Check, policy: opts.Policy,
		writesThrough: opts.WriteThrough, confirmWithin: opts.ConfirmWithin, assumesAbsent: opts.AssumeAbsent,
		turns: newTurns(), traces: opts.Traces, tasks: opts.Tasks,
		fetches: &fetches{upstream: opts.Upstream, tasks: opts.Tasks, logger: opts.Logger},
	}
	m.repairs = &repairs{last: make(map[journal.ID]repaired)}
	m.changes = newChangeQueue(m, opts.Prefetch, opts.Metrics)
	m.lister = newListKeeper(m, opts.Prefetch)
	return m
}

// Run lists the namespaces in use until ctx ends, so that their absent keys are known, and fetches the values
// of those with Prefetch. With a view it also fetches the entries that other hosts have changed.
func (m *Memory) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.lister.run(ctx) })
	if m.view.upstream != nil {
		g.Go(func() error { return m.changes.run(ctx) })
	}
	return g.Wait()
}

// Settled must be called for each write that upstream has confirmed. After a delete, upstream need not
// be asked whether the entry is absent (contract 9).
func (m *Memory) Settled(w journal.Write) {
	if w.Op != journal.Delete || !m.tasks.Start() {
		return
	}
	defer m.tasks.Done()
	// If the entry cannot be looked up, its 404 is not remembered: the next read asks upstream. Nothing
	// newer can have settled, because the flusher sends the entry's next write only after this.
	m.rememberAbsence(w.ID, func() (journal.State, bool) {
		state, err := m.journal.Lookup(w.ID)
		return state, err == nil
	})
}

// VersionSeen must be called for each version of an entry, once the view has it; own marks this host's
// writes. When it returns, older answers are dropped, and a reader sees that version. It is quick, and
// never calls the view, because the caller may hold the view's lock.
func (m *Memory) VersionSeen(id journal.ID, own bool) {
	m.cache.ChangedElsewhere(id.Namespace, id.Key)
	if !own {
		m.changes.add(id)
	}
}

// Use records that a caller uses a namespace.
func (m *Memory) Use(namespace string) { m.lister.note(namespace) }

// Ask calls ask with a context that ends when a reader of the entry would stop waiting for upstream. If
// ask fails because of that, Ask returns the error of Upstream.TooLong.
func (m *Memory) Ask(caller context.Context, id journal.ID, ask func(context.Context) error) error {
	ctx, cancel := m.tasks.Patience(caller, m.upstream.Patience(id))
	defer cancel()
	err := ask(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		return m.upstream.TooLong()
	}
	return err
}

// ErrWaits refuses a request that must be answered at once but has to wait for upstream.
var ErrWaits = errors.New("the request has to wait for upstream")

// ErrLater refuses a DELETE of a state that is not from before its Before.
var ErrLater = errors.New("the entry was written later")

// Do carries out a request. It returns both a result and an error for a GET whose If-Match does not
// hold.
func (m *Memory) Do(ctx context.Context, q *Request) (Result, error) {
	switch q.Verb {
	case GetEntry:
		return m.get(q)
	case PutEntry, DeleteEntry:
		if q.Name != "" && q.named == nil {
			return m.once(ctx, *q, "", m.Do)
		}
		w := journal.NewWrite{ID: q.ID, Op: journal.Delete}
		if q.Verb == PutEntry {
			w = NewPut(q.ID, q.Value)
		}
		return m.write(ctx, q, w, q.Conditions)
	case ListKeys:
		return m.listKeys(q)
	}
	return Result{}, wire.MethodNotAllowed()
}

// accepts returns why an entry's namespace takes no such write or, with an empty value, no read of the entry.
func (m *Memory) accepts(id journal.ID, value string) error {
	if m.check == nil {
		return nil
	}
	if refusal := m.check(id, value); refusal != nil {
		return refusal
	}
	return nil
}

// lookOnce returns what is known of a GET's entry. If the fast path has looked for the same request, and the entry has
// not changed since, lookOnce does not look again.
func (m *Memory) lookOnce(q *Request) (known, error) {
	if q.known != nil && q.known.generation == m.cache.Generation(entryKey(q.ID)) {
		return *q.known, nil
	}
	return m.look(q.ID, q.Directives)
}

func (m *Memory) get(q *Request) (Result, error) {
	if err := m.accepts(q.ID, ""); err != nil {
		return Result{}, err
	}
	k, err := m.lookOnce(q)
	if err != nil {
		return Result{}, err
	}
	r := k.answer()
	if k.freshness != cache.Fresh {
		if q.AtOnce {
			q.known = new(k)
			return Result{}, ErrWaits
		}
		if r, err = m.askUpstream(q.Directives, k, inTrace(q.Trace, newEntry(m, q.ID, k, q.noStore))); err != nil {
			return Result{}, err
		}
	}
	switch {
	case r.item.Body == nil:
		r.Status, r.body = statusNotFound, wire.NotFound(q.ID.Namespace, q.ID.Key).Body
	case q.changed(r.item):
		r.Status, err = statusPreconditionFailed, errNotAsMatched
	case q.unchanged(r.item):
		r.Status = statusNotModified
	default:
		r.Status, r.body = statusOK, r.item.Body
	}
	return r, err
}

func (m *Memory) listKeys(q *Request) (Result, error) {
	k, err := m.lookAtList(q.ID.Namespace, q.Limit, q.Directives)
	if err != nil {
		return Result{}, err
	}
	r := k.answer()
	if k.freshness != cache.Fresh {
		if r, err = m.askUpstream(q.Directives, k, inTrace(q.Trace, &listing{m, q.ID.Namespace, q.Limit})); err != nil {
			return Result{}, err
		}
	}
	r.Status, r.body = statusOK, r.item.Body
	return r, nil
}
