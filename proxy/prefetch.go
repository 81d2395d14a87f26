package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const (
	// prefetchesAtOnce bounds the entries that are fetched at a time before anybody reads them,
	// of all namespaces: callers' reads have slots left.
	prefetchesAtOnce = 4
	// throttledMost is the longest pause that a prefetch makes at a 429.
	throttledMost = time.Minute
	// prefetchTimeout is how long a request to prefetch waits by default.
	prefetchTimeout = time.Minute
)

// prefetches fetch the values of namespaces, so that all of it can be read while upstream is
// away. There is one pass at a time over a namespace, and it goes on without those who wait.
type prefetches struct {
	m      *memory
	tasks  *tasks
	logger *slog.Logger
	slots  chan struct{}

	mu     sync.Mutex // guards passes
	passes map[string]*prefetch
}

func newPrefetches(m *memory, running *tasks, logger *slog.Logger) *prefetches {
	return &prefetches{
		m: m, tasks: running, logger: logger,
		slots: make(chan struct{}, prefetchesAtOnce), passes: make(map[string]*prefetch),
	}
}

// prefetch is one pass over a namespace.
type prefetch struct {
	patient bool // a person wants it: it waits while upstream throttles the namespace
	over    chan struct{}
	err     error // set before over is closed

	mu sync.Mutex // guards what follows
	prefetchProgress
}

// prefetchProgress says how far a prefetch is. Keys counts those that upstream lists, and left
// those of which the value is not here yet.
type prefetchProgress struct {
	Keys     int  `json:"keys"`
	Fetched  int  `json:"fetched"`
	Left     int  `json:"left"`
	Complete bool `json:"complete"` // upstream has no more keys
}

// lacks takes in how many keys lack their values.
func (p *prefetch) lacks(left, keys int, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Fetched += max(0, p.Left-left)
	p.Keys, p.Left, p.Complete = keys, left, complete
}

func (p *prefetch) progress() prefetchProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prefetchProgress
}

// wait returns when the pass is over, or ctx's error.
func (p *prefetch) wait(ctx context.Context) error {
	select {
	case <-p.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin begins or joins a pass. A pass for a person is patient, and asks for the namespace's
// listing first, unless the kept one needs no other.
func (ps *prefetches) begin(namespace string, patient bool) *prefetch {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.passes[namespace]; p != nil {
		return p
	}
	p := &prefetch{over: make(chan struct{}), patient: patient}
	if !ps.tasks.start() {
		p.err = context.Canceled
		close(p.over)
		return p
	}
	ps.passes[namespace] = p
	go func() {
		defer ps.tasks.done()
		p.err = recovered(ps.logger, func() error { return ps.pass(p, namespace, patient) })
		ps.mu.Lock()
		defer ps.mu.Unlock()
		delete(ps.passes, namespace)
		close(p.over)
	}()
	return p
}

// pass fetches what is lacking. It ends at the first failure, but a patient one waits while
// upstream throttles the namespace. Others have the slots meanwhile (contract 16).
func (ps *prefetches) pass(p *prefetch, namespace string, lists bool) error {
	head, _, err := ps.m.journal.Listings.Head(namespace)
	if err != nil {
		return err
	}
	ctx := ps.tasks.detached()
	if lists && !ps.m.mayKeep(namespace, head) {
		if err := listNow(ctx, ps.m, namespace); err != nil {
			return err
		}
		if head, _, err = ps.m.journal.Listings.Head(namespace); err != nil {
			return err
		}
	}
	for {
		keys, listed, err := ps.m.journal.Listings.Lacks(namespace)
		if err != nil {
			return err
		}
		p.lacks(len(keys), listed, head.Complete)
		err = ps.fetchAll(ctx, p, namespace, keys)
		var said answered
		if !errors.As(err, &said) || refusesCaller(err) || !p.patient {
			return err
		}
		if err := pause(ctx, min(max(said.RetryAfter(), time.Second), throttledMost)); err != nil {
			return err
		}
	}
}

// fetchAll fetches values until one fails.
func (ps *prefetches) fetchAll(ctx context.Context, p *prefetch, namespace string, keys []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var fetching sync.WaitGroup
	for _, key := range keys {
		if !ps.takeSlot(ctx) {
			break
		}
		fetching.Go(func() {
			defer func() { <-ps.slots }()
			err := recovered(ps.logger, func() error { return fetchEntry(ctx, ps.m, journal.ID{Namespace: namespace, Key: key}) })
			if err != nil {
				cancel(err)
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.Fetched++
			p.Left--
		})
	}
	fetching.Wait()
	return context.Cause(ctx)
}

// takeSlot waits for a slot. It returns false when ctx has ended.
func (ps *prefetches) takeSlot(ctx context.Context) bool {
	select {
	case ps.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

type prefetchDocument struct {
	Namespace string `json:"namespace"`
	prefetchProgress
	Detail string `json:"detail,omitempty"` // why it has failed
}

// prefetch answers when the values of a namespace are here, or when its time is up; the pass goes
// on then.
func (s *surface) prefetch(w http.ResponseWriter, r *http.Request) error {
	namespace, err := namespaceParameter(r)
	if err != nil {
		return err
	}
	if namespace == "" {
		return wire.Detail(http.StatusBadRequest, "expected the parameter namespace, which names a namespace")
	}
	timeout, err := durationParameter(r, "timeout", prefetchTimeout, maxFlushTimeout, "1h")
	if err != nil {
		return err
	}
	if err := allow(w, timeout); err != nil {
		return err
	}
	ctx, cancel := s.tasks.patience(r.Context(), timeout)
	defer cancel()
	s.prefetches.m.used.note(namespace)
	p := s.prefetches.begin(namespace, true)
	for !p.patient && p.wait(ctx) == nil { // it was the listKeeper's
		p = s.prefetches.begin(namespace, true)
	}
	if p.wait(ctx) != nil {
		return writeDocument(w, http.StatusGatewayTimeout, prefetchDocument{Namespace: namespace, prefetchProgress: p.progress()})
	}
	doc := prefetchDocument{Namespace: namespace, prefetchProgress: p.progress()}
	var later interface{ RetryAfter() time.Duration }
	switch {
	case p.err == nil:
		return writeDocument(w, http.StatusOK, doc)
	case !errors.As(p.err, &later):
		return p.err
	}
	doc.Detail = p.err.Error()
	w.Header().Set("Retry-After", retryAfter(later.RetryAfter()))
	return writeDocument(w, http.StatusServiceUnavailable, doc)
}
