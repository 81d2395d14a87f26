package memory

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/journal"
)

// resource is the target of a read: an entry or a listing.
type resource interface {
	// key returns the cache key of the reader's answer.
	key() cache.Key
	// name identifies the resource. All listings of a namespace share one name: upstream is always asked for
	// all keys that it lists.
	name() string
	// ask asks upstream. The caller must call accept, which stores upstream's answer in the journal. accept
	// returns errOvertaken if a write came in between and left nothing here that could answer instead.
	ask(ctx context.Context, waitOutOutage bool) (accept func() (fetched, error), err error)
}

// errOvertaken says that a write came in during the request: ask again.
var errOvertaken = errors.New("overtaken by a write")

// fetched is the result of a request upstream, for all readers that waited for it.
type fetched struct {
	// item returns the answer for a reader's key: readers of one listing may want different limits.
	item func(cache.Key) *cache.Item
	// overtaken says that a write overtook upstream's answer: the item is the newer local state.
	overtaken bool
	// doubt says why upstream's answer did not count: the item is the local state.
	doubt journal.Rejection
}

// fetches makes the requests upstream for reads. Readers of the same resource share one request, which goes
// on when a reader leaves.
type fetches struct {
	upstream Upstream
	tasks    *tasks.Tasks
	logger   *slog.Logger
	group    singleflight.Group
	began    sync.Map // name of a fetch in flight → time.Time
	resting  sync.Map // names of the fetches that failed within the last restAfter
}

// restAfter is how long upstream is not asked again for what it has failed to answer, for readers who have a stale copy.
const restAfter = time.Second

// refresh starts or joins a fetch for a reader who has a stale copy, unless the last one has just failed.
func (f *fetches) refresh(from resource) {
	if _, rests := f.resting.Load(from.name()); !rests { // guard 16.62
		f.begin(from, false) // if this fails, nothing is lost yet
	}
}

func (f *fetches) rest(name string) {
	if _, rests := f.resting.LoadOrStore(name, true); !rests {
		time.AfterFunc(restAfter, func() { f.resting.Delete(name) })
	}
}

// patience returns how long a caller waits for upstream if there is no other answer.
func (f *fetches) patience(from resource) time.Duration {
	key := from.key()
	return f.upstream.Patience(journal.ID{Namespace: key.Namespace, Key: key.Key})
}

// wait starts or joins a fetch and waits at most longest. It does not wait if the fetch has already
// been in flight for longest: others have waited in vain. It waits even if the caller seems gone: a
// caller that has only closed its sending side looks the same, and must be answered.
func (f *fetches) wait(from resource, waitOutOutage bool, longest time.Duration) (fetched, error) {
	at, underWay := f.began.Load(fetchName(from, waitOutOutage))
	inVain := longest <= 0 || underWay && time.Since(at.(time.Time)) >= longest // guard 9.13
	result := f.begin(from, waitOutOutage)
	if inVain {
		return fetched{}, f.upstream.TooLong()
	}
	timer := time.NewTimer(longest) // guard 9.9
	defer timer.Stop()
	select {
	case r := <-result:
		if r.Err != nil {
			return fetched{}, r.Err
		}
		return r.Val.(fetched), nil
	case <-timer.C:
		return fetched{}, f.upstream.TooLong()
	}
}

// begin starts or joins a fetch. Readers that wait out an outage have fetches of their own. If two are in
// flight, the journal drops the second answer.
func (f *fetches) begin(from resource, waitOutOutage bool) <-chan singleflight.Result {
	name := fetchName(from, waitOutOutage)
	return f.group.DoChan(name, func() (result any, err error) {
		if !f.tasks.Start() {
			return nil, context.Canceled
		}
		defer f.tasks.Done()
		defer tasks.RecoverPanic(f.logger, &err)
		for {
			got, err := f.once(name, from, waitOutOutage)
			if isUnavailable(err) {
				f.rest(from.name())
			}
			if !errors.Is(err, errOvertaken) {
				return got, err
			}
		}
	})
}

// once asks upstream and accepts the answer. Nobody may join the fetch after the answer: a later reader
// may have seen a newer write, and must not get an older answer (contract 5).
func (f *fetches) once(name string, from resource, waitOutOutage bool) (fetched, error) {
	now := time.Now()
	f.began.Store(name, now)
	defer f.began.CompareAndDelete(name, now)
	accept, err := from.ask(f.tasks.Detached(), waitOutOutage)
	if err != nil {
		return fetched{}, err
	}
	f.group.Forget(name) // guard 5.3
	return accept()
}

func fetchName(from resource, waitOutOutage bool) string {
	if waitOutOutage {
		return from.name() + " waits"
	}
	return from.name()
}

// traced asks upstream as part of a caller's trace. Readers that join have their own traces.
type traced struct {
	resource
	trace trace.Context
}

// inTrace returns the resource for a caller with a trace.
func inTrace(c trace.Context, from resource) resource {
	if !c.Given() {
		return from
	}
	return &traced{from, c}
}

func (t *traced) ask(ctx context.Context, waitOutOutage bool) (accept func() (fetched, error), err error) {
	return t.resource.ask(trace.With(ctx, t.trace), waitOutOutage)
}

// fetchEntry asks upstream for an entry, unless a write to it is pending.
func (m *Memory) fetchEntry(ctx context.Context, id journal.ID, k known) error {
	if k.state.Seq != 0 {
		return nil
	}
	select {
	case r := <-m.fetches.begin(newEntry(m, id, k, false), false):
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}
