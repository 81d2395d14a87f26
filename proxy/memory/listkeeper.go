package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/journal"
)

const (
	// firstListing is the delay between a namespace's first use and its first listing. listAgain is the
	// maximum age of a listing while its namespace is in use.
	firstListing = 100 * time.Millisecond
	listAgain    = 30 * time.Second
	// repeatPace is the minimum time between two repeated listings. BotWire's documents allow 60 requests a
	// minute: callers have at least half of them, however many namespaces are in use.
	repeatPace = 2 * time.Second
	// largeAgain is the interval between listings of a namespace that has more keys than upstream
	// lists, or whose keys a view has.
	largeAgain = time.Hour
	// usedAtMost bounds the namespaces that count as in use. A further one is not listed in the background
	// until another falls out of use.
	usedAtMost = 1024
	// idleAfter is how long a namespace counts as in use after its last use.
	idleAfter = 2 * time.Minute
	// listersAtOnce bounds the namespaces that are listed or prefetched at a time, so that one that hangs
	// does not hold up the others.
	listersAtOnce = 4 // guard 9.26
	// prefetchesAtOnce bounds prefetches over all namespaces, so that callers' reads find free slots.
	prefetchesAtOnce = 4
	// refusalsPassed bounds the entries that upstream may refuse before a prefetch stops.
	refusalsPassed = 4
	// retryLeast and retryMost bound the pause after a failed background request.
	retryLeast, retryMost = 2 * time.Second, time.Minute
)

// listKeeper lists the namespaces in use in the background, soon after the first use and then repeatedly, so
// that their absent keys are known (contract 9). No caller waits for its requests.
type listKeeper struct {
	m          *Memory
	prefetches func(namespace string) bool
	slots      chan struct{} // at most prefetchesAtOnce
	wake       chan struct{} // has an element when a namespace was added or a look has ended

	// hasAsked: a namespace was listed since the start. Only run touches it.
	hasAsked bool

	// used holds the namespaces in use. Every request notes its use, so note takes no lock: a new namespace
	// comes with a new map.
	used atomic.Pointer[map[string]*use]

	mu        sync.Mutex // guards the fields below, the fields of each use, and changes of used
	running   int        // number of busy namespaces
	notBefore time.Time  // when the next namespace may be listed again
}

// use is a namespace in use. Only the listKeeper touches its fields, except recent.
type use struct {
	recent   atomic.Bool // used since the listKeeper last looked
	last     time.Time   // when the listKeeper last saw a use
	due      time.Time   // when to look at it next
	listed   bool        // it was listed once, or need not be
	failures int         // in a row
	busy     bool
}

func newListKeeper(m *Memory, prefetches func(namespace string) bool) *listKeeper {
	l := &listKeeper{m: m, prefetches: prefetches, slots: make(chan struct{}, prefetchesAtOnce), wake: make(chan struct{}, 1)}
	l.used.Store(&map[string]*use{})
	return l
}

func (l *listKeeper) note(namespace string) {
	found, ok := (*l.used.Load())[namespace]
	switch {
	case !ok:
		l.add(namespace)
	case !found.recent.Load(): // else readers would all write the same cache line
		found.recent.Store(true)
	}
}

func (l *listKeeper) add(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := *l.used.Load()
	if _, ok := now[namespace]; ok || len(now) >= usedAtMost { // guard 9.24
		return
	}
	next := maps.Clone(now)
	added := &use{due: time.Now().Add(firstListing)}
	added.recent.Store(true)
	next[namespace] = added
	l.used.Store(&next)
	signal(l.wake)
}

// signal sends on a channel with room for one element, unless it is full.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (l *listKeeper) run(ctx context.Context) error {
	var looks sync.WaitGroup
	defer looks.Wait()
	for namespace := range l.m.journal.Trust.Suspects() { // upstream may list it again
		l.note(namespace)
	}
	for {
		var timer <-chan time.Time
		if wait := l.beginDue(ctx, &looks); wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.wake:
		case <-timer:
		}
	}
}

// beginDue looks at the namespaces that are due, in the background, and returns how long to wait for the next
// one; 0 means until something happens.
func (l *listKeeper) beginDue(ctx context.Context, looks *sync.WaitGroup) time.Duration {
	for {
		namespace, of, wait := l.next(time.Now())
		if of == nil {
			return wait
		}
		again, err := l.due(namespace)
		// After a kill, copies and the late window may keep all other requests from upstream, and an outage from the state.
		isDue := !again.After(time.Now()) || !l.hasAsked // guard 9.110
		prefetches := l.prefetches(namespace)
		if err != nil || !isDue && !prefetches {
			l.schedule(of, again, err)
			continue
		}
		l.hasAsked = l.hasAsked || isDue
		l.mu.Lock()
		if isDue && of.listed {
			l.notBefore = time.Now().Add(repeatPace) // guard 9.23
		}
		of.busy = true
		l.running++
		l.mu.Unlock()
		looks.Go(func() {
			var again time.Time
			err := tasks.Recovered(l.m.fetches.logger, func() (err error) {
				again, err = l.look(ctx, namespace, isDue, prefetches)
				return err
			})
			l.schedule(of, again, err)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.running--
			of.busy = false
			signal(l.wake)
		})
	}
}

// next returns the namespace to look at now. If there is none, of is nil, and wait is how long to wait; 0
// means until something happens. next forgets the namespaces that nobody uses.
func (l *listKeeper) next(now time.Time) (namespace string, of *use, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running >= listersAtOnce { // all slots are busy: look at none yet, although callers keep bringing new namespaces
		return "", nil, 0
	}
	used := *l.used.Load()
	kept := used
	var earliest time.Time
	for name, u := range used {
		if u.busy {
			continue
		}
		if u.recent.Swap(false) {
			u.last = now
		}
		due := u.due
		if u.listed && due.Before(l.notBefore) {
			due = l.notBefore
		}
		if !due.After(now) && now.Sub(u.last) > idleAfter && !l.m.view.hasDataLoss(name) { // guard 9.22, 9.60
			if len(kept) == len(used) {
				kept = maps.Clone(used)
			}
			delete(kept, name)
			continue
		}
		if of == nil || due.Before(earliest) {
			namespace, of, earliest = name, u, due
		}
	}
	if len(kept) < len(used) {
		l.used.Store(&kept)
	}
	switch {
	case of == nil:
		return "", nil, 0
	case earliest.After(now):
		return "", nil, earliest.Sub(now)
	}
	return namespace, of, 0
}

func (l *listKeeper) schedule(of *use, again time.Time, err error) {
	if err != nil && !isNoAnswer(err) && !errors.Is(err, tasks.ErrPanicked) { // a panic has been logged, and the status shows how upstream is doing
		l.m.fetches.logger.Error("listing a namespace in the background", "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		of.listed, of.failures, of.due = true, 0, again
		return
	}
	wait, _ := RetryAfter(err)
	of.due = time.Now().Add(min(max(retryLeast<<min(of.failures, 10), wait), retryMost))
	of.failures++
}

func (l *listKeeper) look(ctx context.Context, namespace string, lists, prefetches bool) (again time.Time, err error) {
	if lists {
		select {
		case r := <-l.m.fetches.begin(&listing{l.m, namespace, maxListLimit}, false):
			err = r.Err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil && prefetches {
		err = l.prefetch(ctx, namespace)
	}
	if err != nil {
		return time.Time{}, err
	}
	again, err = l.due(namespace)
	now := time.Now()
	if !again.After(now) || prefetches && again.After(now.Add(listAgain)) {
		again = now.Add(listAgain)
	}
	return again, err
}

// refusesEntry reports whether upstream refused one entry as such, and not the caller or the rate.
func refusesEntry(err error) bool {
	status, _ := answeredStatus(err)
	return slices.Contains([]int{statusBadRequest, statusTooLarge, statusUnprocessable}, status)
}

// prefetch fetches the values of a namespace that are not here. It passes over a few that upstream refuses,
// and stops at any other error: then another namespace gets the slots (contract 16).
func (l *listKeeper) prefetch(ctx context.Context, namespace string) error {
	keys, err := l.m.journal.Listings.Lacks(namespace)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	passed := make(chan error, refusalsPassed)
	for _, key := range keys {
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return g.Wait()
		}
		g.Go(func() error {
			defer func() { <-l.slots }()
			err := tasks.Recovered(l.m.fetches.logger, func() error {
				id := journal.ID{Namespace: namespace, Key: key}
				k, err := l.m.lookInJournal(id, AnyAge)
				if err != nil {
					return err
				}
				return l.m.fetchEntry(ctx, id, k)
			})
			if refusesEntry(err) {
				select {
				case passed <- err:
					return nil
				default:
				}
			}
			return err
		})
	}
	if err = g.Wait(); err == nil && len(passed) > 0 {
		err = <-passed
	}
	return err
}

// due returns when to list a namespace: now if no listing is kept.
func (l *listKeeper) due(namespace string) (time.Time, error) {
	head, ok, err := l.m.journal.Listings.Head(namespace)
	now := time.Now()
	switch known := ok && head.FetchedAt.Unix() > 0; {
	case err != nil || !known:
		return now, err
	case !head.Complete && !l.m.view.hasDataLoss(namespace):
		return head.FetchedAt.Add(largeAgain), nil // guard 9.25
	case l.mayWait(namespace, head) && now.Sub(head.FetchedAt) < largeAgain:
		return now.Add(listAgain), nil // the view may break before then
	}
	if head.FetchedAt.After(now) { // the clock was set back
		return now, nil
	}
	return head.FetchedAt.Add(listAgain), nil
}
