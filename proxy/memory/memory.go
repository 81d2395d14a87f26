package memory

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// Memory is BotWire's memory API: GET, PUT and DELETE of entries, and LIST. read.go has the order of a read,
// entry.go and listing.go what can be read, write.go and delete.go the writes, and through.go those that upstream
// carries out first. Its methods may be called concurrently.
type Memory struct {
	journal  *journal.Journal
	cache    *cache.Cache
	upstream Upstream
	flusher  Flusher
	identity Identity
	view     *upstreamView
	exact    bool // upstream carries a write out only over the state that it is based on
	policy   func(namespace string) cache.Policy
	// writesThrough says which namespaces write through, and through has the writes that are
	// on their way upstream so.
	writesThrough func(namespace string) bool
	through       *throughWrites
	assumesAbsent func(namespace string) bool // of an unknown entry while upstream cannot be asked
	tasks         *tasks.Tasks
	fetches       *fetches
	turns         *turns // of appends
	traces        *trace.Writes
	changes       *changeQueue
	lister        *listKeeper
	restorer      *Restorer
}

// Options configures a memory.
type Options struct {
	Journal  *journal.Journal
	Cache    *cache.Cache
	Upstream Upstream
	Flusher  Flusher
	// Identity is the daemon's; nil if it never doubts it.
	Identity Identity
	// Policy says how long answers of a namespace are good.
	Policy func(namespace string) cache.Policy
	// WriteThrough says whether an acknowledgement of a namespace means that upstream has
	// the write; nil is for none.
	WriteThrough func(namespace string) bool
	// Prefetch says of which namespaces the values are fetched before anybody reads them, and
	// AssumeAbsent in which an unknown entry is answered 404 while upstream cannot be asked;
	// nil is for none.
	Prefetch, AssumeAbsent func(namespace string) bool
	// View is what upstream holds of all entries; nil if upstream does not tell of changes. While it
	// has caught up, no answer gets old (see upstreamview.go).
	View View
	// Exact says that WriteThrough carries a conditional write out only over the state that it is
	// based on: so its condition holds among all hosts.
	Exact bool
	// Traces remembers the traces of writes for when they are sent; nil if nobody asks.
	Traces *trace.Writes
	// Tasks counts what is under way.
	Tasks *tasks.Tasks
	// Metrics counts the fetches of what other hosts have changed.
	Metrics *metrics.Metrics
	// Logger must not be nil. It never gets a value.
	Logger *slog.Logger
}

// New returns a memory. In the background it works only for requests, and in Run.
func New(opts Options) *Memory {
	if opts.Traces == nil {
		opts.Traces = trace.NewWrites()
	}
	if opts.Identity == nil {
		opts.Identity = undoubted{}
	}
	none := func(string) bool { return false }
	for _, of := range []*func(string) bool{&opts.WriteThrough, &opts.Prefetch, &opts.AssumeAbsent} {
		if *of == nil {
			*of = none
		}
	}
	m := &Memory{
		journal: opts.Journal, cache: opts.Cache, upstream: opts.Upstream, flusher: opts.Flusher, identity: opts.Identity,
		view: &upstreamView{opts.View, opts.Journal}, exact: opts.Exact, policy: opts.Policy,
		writesThrough: opts.WriteThrough, through: &throughWrites{writes: make(map[*throughWrite]struct{})}, assumesAbsent: opts.AssumeAbsent,
		turns: newTurns(), traces: opts.Traces, tasks: opts.Tasks,
		fetches: &fetches{upstream: opts.Upstream, tasks: opts.Tasks, logger: opts.Logger},
	}
	m.restorer = &Restorer{m: m, logger: opts.Logger, running: make(map[string]*Restoration), looked: make(map[string]time.Time)}
	m.changes = newChangeQueue(m, opts.Prefetch, opts.Metrics)
	m.lister = newListKeeper(m, opts.Prefetch)
	return m
}

// Run lists the namespaces in use until ctx ends, so that their absent keys are known, and
// fetches the values of those that are set so. With a view it also fetches what other hosts
// have changed.
func (m *Memory) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.lister.run(ctx) })
	if m.view.upstream != nil {
		g.Go(func() error { return m.changes.run(ctx) })
	}
	return g.Wait()
}

// Settled must be called for each write that upstream has confirmed. A delete leaves an
// absence that upstream need not be asked about (contract 9).
func (m *Memory) Settled(w journal.Write) {
	if w.Op != journal.Delete || !m.tasks.Start() {
		return
	}
	defer m.tasks.Done()
	// An absence that cannot be looked up is not remembered. The next read asks upstream.
	// Nothing newer can have settled: the flusher sends the entry's next write after this.
	_, _ = m.rememberAbsence(w.ID, func() bool { return true })
}

// VersionSeen must be called for each version of an entry that the view takes in, own says for this
// host's writes, once the view shows it. Answers of older states are dropped when it returns: a
// reader who asks then sees that version. It is quick, and never calls the view: the caller may hold
// its lock.
func (m *Memory) VersionSeen(id journal.ID, own bool) {
	m.cache.ChangedElsewhere(id.Namespace, id.Key)
	if !own {
		m.changes.add(id)
	}
}

// Restorer returns the memory's restorer.
func (m *Memory) Restorer() *Restorer { return m.restorer }

// Doubts returns the daemon's identity, and why what is known here was taken for old.
func (m *Memory) Doubts() identity.State { return m.identity.State() }

// Use notes that a caller uses a namespace.
func (m *Memory) Use(namespace string) { m.lister.note(namespace) }

// Ask asks upstream something about an entry, for as long as a reader of the entry would wait.
func (m *Memory) Ask(caller context.Context, id journal.ID, ask func(context.Context) error) error {
	ctx, cancel := m.tasks.Patience(caller, m.upstream.Patience(id))
	defer cancel()
	err := ask(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		return m.upstream.TooLong()
	}
	return err
}

// ErrWaits refuses a request that is to be answered at once: it has to wait for upstream.
var ErrWaits = errors.New("the request has to wait for upstream")

// Do carries a request out. A result may come with an error: that of a GET whose condition does not
// hold.
func (m *Memory) Do(ctx context.Context, q *Request) (Result, error) {
	switch q.Verb {
	case GetEntry:
		return m.get(q)
	case PutEntry:
		return m.write(ctx, q, NewPut(q.ID, q.Value), q.Conditions)
	case DeleteEntry:
		return m.write(ctx, q, journal.NewWrite{ID: q.ID, Op: journal.Delete}, q.Conditions)
	case ListKeys:
		return m.listKeys(q)
	}
	return Result{}, wire.MethodNotAllowed()
}

func (m *Memory) get(q *Request) (Result, error) {
	found, err := m.findEntry(q.ID, q.Directives)
	if err != nil {
		return Result{}, err
	}
	r := found.answer()
	if found.freshness != cache.Fresh {
		if q.AtOnce {
			return Result{}, ErrWaits
		}
		if r, err = m.askUpstream(q.Directives, found, inTrace(q.Trace, newEntry(m, q.ID, found.generation, q.noStore))); err != nil {
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
	found, err := m.findListing(q.ID.Namespace, q.Limit, q.Directives)
	if err != nil {
		return Result{}, err
	}
	r := found.answer()
	if found.freshness != cache.Fresh {
		if r, err = m.askUpstream(q.Directives, found, inTrace(q.Trace, &listing{m, q.ID.Namespace, q.Limit})); err != nil {
			return Result{}, err
		}
	}
	r.Status, r.body = statusOK, r.item.Body
	return r, nil
}
