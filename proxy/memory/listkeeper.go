package memory

import (
	"context"
	"errors"
	"slices"
	"sync"
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
// (contract 9): soon after the first use, and again while they are used. It takes no part in
// answering callers. Nobody waits for its requests, which are refreshes.
type listKeeper struct {
	m          *Memory
	used       *inUse
	prefetches func(namespace string) bool
	slots      chan struct{} // of prefetchesAtOnce
	changes    *changeQueue

	ended chan lookResult
	// running is the number of namespaces that are busy, and notBefore when the next may be
	// listed again.
	running   int
	notBefore time.Time
}

// ending is the outcome of a look at a namespace.
type lookResult struct {
	of    *use
	again time.Time
	err   error
}

// run lists until ctx ends.
func (l *listKeeper) run(ctx context.Context) error {
	var looks sync.WaitGroup
	defer looks.Wait()
	for {
		namespace, of, wait := l.next(time.Now())
		if of != nil {
			l.begin(ctx, namespace, of, &looks)
			continue
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.used.wake:
		case <-timer:
		case e := <-l.ended:
			l.finish(e)
		}
	}
}

// begin lists a namespace if that is due, and fetches its values if it is set so.
func (l *listKeeper) begin(ctx context.Context, namespace string, of *use, looks *sync.WaitGroup) {
	again, err := l.due(namespace)
	isDue, prefetches := !again.After(time.Now()), l.prefetches(namespace)
	if err != nil || !isDue && !prefetches {
		l.schedule(of, again, err)
		return
	}
	if isDue && of.listed {
		l.notBefore = time.Now().Add(repeatPace) // guard 9.23
	}
	of.busy = true
	l.running++
	looks.Go(func() {
		e := lookResult{of: of}
		e.err = tasks.Recovered(l.m.fetches.logger, func() (err error) {
			e.again, err = l.look(ctx, namespace, isDue, prefetches)
			return err
		})
		select {
		case l.ended <- e:
		case <-ctx.Done():
		}
	})
}

// next is the namespace that is to be looked at now, nil if there is none, and how long to wait
// for one otherwise: 0 is until something happens.
func (l *listKeeper) next(now time.Time) (namespace string, of *use, wait time.Duration) {
	if l.running >= listersAtOnce { // callers bring new namespaces all the while: none is looked at yet
		return "", nil, 0
	}
	var idle []string
	var earliest time.Time
	for name, u := range *l.used.known.Load() {
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
			idle = append(idle, name)
			continue
		}
		if of == nil || due.Before(earliest) {
			namespace, of, earliest = name, u, due
		}
	}
	l.used.drop(idle)
	switch {
	case of == nil:
		return "", nil, 0
	case earliest.After(now):
		return "", nil, earliest.Sub(now)
	}
	return namespace, of, 0
}

// finish notes how a look has ended.
func (l *listKeeper) finish(e lookResult) {
	l.running--
	e.of.busy = false
	l.schedule(e.of, e.again, e.err)
}

// schedule decides when to look at a namespace again.
func (l *listKeeper) schedule(of *use, again time.Time, err error) {
	if err == nil {
		of.listed, of.failures, of.due = true, 0, again
		return
	}
	if !isNoAnswer(err) && !errors.Is(err, tasks.ErrPanicked) { // a panic is logged, and the status says how upstream does
		l.m.fetches.logger.Error("listing a namespace in the background", "error", err)
	}
	wait, _ := retryAfter(err)
	of.due = time.Now().Add(min(max(retryLeast<<min(of.failures, 10), wait), retryMost))
	of.failures++
}

// look lists a namespace, and fetches its values, and returns when to look again.
func (l *listKeeper) look(ctx context.Context, namespace string, lists, prefetches bool) (again time.Time, err error) {
	if lists {
		err = l.m.listNow(ctx, namespace)
	}
	if err == nil && prefetches {
		err = l.prefetch(ctx, namespace)
	}
	if err != nil {
		return time.Time{}, err
	}
	again, err = l.due(namespace)
	now := time.Now()
	if !again.After(now) {
		again = now.Add(listAgain)
	}
	if prefetches {
		again = minTime(again, now.Add(listAgain))
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

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
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
