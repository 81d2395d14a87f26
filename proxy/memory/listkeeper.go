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
	// firstListing is how long after its first use a namespace is listed, and listAgain how
	// old a listing gets while its namespace is used.
	firstListing = 100 * time.Millisecond
	listAgain    = 30 * time.Second
	// repeatPace is the least time between two listings of namespaces that have been listed
	// before. BotWire's documents allow 60 requests a minute: callers have half of them at
	// least, however many namespaces are in use.
	repeatPace = 2 * time.Second
	// largeAgain is when a namespace is listed again that has more keys than upstream lists, or of
	// which a view shows what upstream holds.
	largeAgain = time.Hour
	// usedAtMost bounds how many namespaces are remembered to be in use. A further one is not
	// listed in the background until another falls out of use.
	usedAtMost = 1024
	// idleAfter is how long after its last use a namespace is in use.
	idleAfter = 2 * time.Minute
	// listersAtOnce bounds the namespaces that are listed, or prefetched, at a time: one that
	// hangs holds up no other.
	listersAtOnce = 4 // guard 9.26
	// prefetchesAtOnce bounds prefetches over all namespaces, so that callers' reads find free slots.
	prefetchesAtOnce = 4
	// refusalsPassed bounds the entries that upstream refuses in a prefetch that goes on.
	refusalsPassed = 4
	// retryLeast and retryMost bound the pause after a request of the background's that has failed.
	retryLeast, retryMost = 2 * time.Second, time.Minute
)

// listKeeper lists the namespaces in use in the background, so that their absent keys are known
// (contract 9): soon after the first use, and again while they are used. Nobody waits for its requests.
type listKeeper struct {
	m          *Memory
	prefetches func(namespace string) bool
	slots      chan struct{} // of prefetchesAtOnce
	wake       chan struct{} // has one element when a namespace has come, or a look has ended

	// used has the namespaces in use. Noting a use is on the way of every request, so it takes no lock: a
	// new namespace comes with a new map.
	used atomic.Pointer[map[string]*use]

	mu        sync.Mutex // guards what follows, the fields of each use, and changes of used
	running   int        // namespaces that are busy
	notBefore time.Time  // when the next namespace may be listed again
}

// use is a namespace in use. Its fields but recent are the listKeeper's.
type use struct {
	recent   atomic.Bool // used since the listKeeper last looked
	last     time.Time   // when the listKeeper last found it used
	due      time.Time   // when it is to be looked at
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
	case !found.recent.Load(): // else readers would share a cache line that all of them write
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

// signal puts an element into a channel that has room for one.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (l *listKeeper) run(ctx context.Context) error {
	var looks sync.WaitGroup
	defer looks.Wait()
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

// beginDue begins to look at the namespaces that are due, and returns how long to wait for the next one: 0
// is until something happens.
func (l *listKeeper) beginDue(ctx context.Context, looks *sync.WaitGroup) time.Duration {
	for {
		namespace, of, wait := l.next(time.Now())
		if of == nil {
			return wait
		}
		again, err := l.due(namespace)
		isDue, prefetches := !again.After(time.Now()), l.prefetches(namespace)
		if err != nil || !isDue && !prefetches {
			l.schedule(of, again, err)
			continue
		}
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

// next is the namespace that is to be looked at now, nil if there is none, and how long to wait
// for one otherwise: 0 is until something happens. It forgets those that nobody uses.
func (l *listKeeper) next(now time.Time) (namespace string, of *use, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running >= listersAtOnce { // callers bring new namespaces all the while: none is looked at yet
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
		if !due.After(now) && now.Sub(u.last) > idleAfter { // guard 9.22
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
	if err != nil && !isNoAnswer(err) && !errors.Is(err, tasks.ErrPanicked) { // a panic is logged, and the status says how upstream does
		l.m.fetches.logger.Error("listing a namespace in the background", "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		of.listed, of.failures, of.due = true, 0, again
		return
	}
	wait, _ := retryAfter(err)
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

// refusesEntry reports whether an error is about one entry: upstream's word on that alone, and not on who
// asks, or how often.
func refusesEntry(err error) bool {
	status, _ := answeredStatus(err)
	return slices.Contains([]int{statusBadRequest, statusTooLarge, statusUnprocessable}, status)
}

// prefetch fetches the values of a namespace that are not here, past a few that upstream refuses,
// until one fails: another namespace has the slots then (contract 16).
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
			err := tasks.Recovered(l.m.fetches.logger, func() error { return l.m.fetchEntry(ctx, journal.ID{Namespace: namespace, Key: key}) })
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

// due is when a namespace is to be listed: at once if no listing is kept.
func (l *listKeeper) due(namespace string) (time.Time, error) {
	head, ok, err := l.m.journal.Listings.Head(namespace)
	now := time.Now()
	switch known := ok && head.FetchedAt.Unix() > 0; {
	case err != nil || !known:
		return now, err
	case !head.Complete:
		return head.FetchedAt.Add(largeAgain), nil // guard 9.25
	case l.mayWait(namespace, head) && now.Sub(head.FetchedAt) < largeAgain:
		return now.Add(listAgain), nil // the view may break until then
	}
	if head.FetchedAt.After(now) { // the clock was set back
		return now, nil
	}
	return head.FetchedAt.Add(listAgain), nil
}
