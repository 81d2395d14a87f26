package proxy_test

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// unavailable is upstream's error while it cannot be asked.
type unavailable struct{ wait time.Duration }

func (u unavailable) Error() string             { return "upstream is unavailable: connection refused" }
func (u unavailable) RetryAfter() time.Duration { return u.wait }

// fakeUpstream holds entries as BotWire does. A test can take it down, or hold its answers: it makes them,
// and gives them when the test says so.
type fakeUpstream struct {
	mu      sync.Mutex
	entries map[journal.ID]journal.Observation
	clock   float64
	down    bool
	shown   *api.UpstreamState // the state to report; nil reports the one that follows from down
	refusal error              // answered instead; nil if nothing
	// throttled is the prefix of the namespaces whose reads are throttled; "" for none.
	throttled string
	sick      string // the prefix of the keys whose reads it refuses; "" for none
	most      int    // number of keys that it lists at most
	noLists   error  // its answer to a LIST instead; nil if nothing
	lies      bool   // it lists entries that its 404 denies
	asked     []question
	panics    any // it panics with this; nil if nothing

	view *fakeView // nil: it reports no changes, and its times are times of arrival

	refusals map[string]string // of reads, as in the status

	notOpened map[string]string // by sealed namespace

	held     chan *question // nil: answers are given at once
	released chan struct{}  // closed when questions are no longer taken from held
}

// question is a request that upstream got.
type question struct {
	ID     journal.ID // without a key for a LIST
	Waits  bool       // it waits out a short outage
	answer chan struct{}
	trace  trace.Context
}

func newFakeUpstream() *fakeUpstream {
	return &fakeUpstream{entries: make(map[journal.ID]journal.Observation), clock: 1e6, most: 1000}
}

func (u *fakeUpstream) Get(ctx context.Context, id journal.ID, waitOutOutage bool) (*journal.Observation, error) {
	u.mu.Lock()
	o, ok := u.entries[id]
	ok = ok && !u.lies
	u.mu.Unlock()
	if err := u.give(ctx, &question{ID: id, Waits: waitOutOutage}); err != nil || !ok {
		return nil, err
	}
	return &o, nil
}

func (u *fakeUpstream) List(ctx context.Context, namespace string, waitOutOutage bool) ([]journal.Row, bool, error) {
	u.mu.Lock()
	var rows []journal.Row
	for id, o := range u.entries {
		if id.Namespace == namespace {
			rows = append(rows, journal.Row{Key: id.Key, ListBytes: o.ListBytes, UpdatedAt: o.UpdatedAt})
		}
	}
	most, noLists := u.most, u.noLists
	u.mu.Unlock()
	slices.SortFunc(rows, func(a, b journal.Row) int { return cmp.Compare(b.UpdatedAt, a.UpdatedAt) })
	rows = rows[:min(len(rows), most)]
	if err := u.give(ctx, &question{ID: journal.ID{Namespace: namespace}, Waits: waitOutOutage}); err != nil {
		return nil, false, err
	}
	if u.view != nil {
		u.view.takeMissed(namespace)
	}
	return rows, len(rows) < most, noLists
}

const fakePatience = 5 * time.Second

func (u *fakeUpstream) Patience(journal.ID) time.Duration { return fakePatience }

func (u *fakeUpstream) TooLong() error { return unavailable{time.Second} }

// give waits until an answer may be given.
func (u *fakeUpstream) give(ctx context.Context, q *question) error {
	q.trace = trace.From(ctx)
	u.mu.Lock()
	u.asked = append(u.asked, *q)
	down, refusal, held, released, panics := u.down, u.refusal, u.held, u.released, u.panics
	if u.throttled != "" && q.ID.Key != "" && strings.HasPrefix(q.ID.Namespace, u.throttled) {
		refusal = refused{status: http.StatusTooManyRequests}
	}
	if u.sick != "" && strings.HasPrefix(q.ID.Key, u.sick) {
		refusal = refused{status: http.StatusUnprocessableEntity}
	}
	u.mu.Unlock()
	if panics != nil {
		panic(panics)
	}
	if held != nil {
		q.answer = make(chan struct{})
		select {
		case held <- q:
		case <-released:
			close(q.answer)
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-q.answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if down {
		return unavailable{1500 * time.Millisecond}
	}
	return refusal
}

func (u *fakeUpstream) refuse(with error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refusal = with
}

// throttle throttles the reads in the namespaces with a prefix.
func (u *fakeUpstream) throttle(prefix string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.throttled = prefix
}

func (u *fakeUpstream) readsRefused() map[string]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refusals
}

// refuseReads makes it refuse the reads of namespaces, as the status has it.
func (u *fakeUpstream) refuseReads(why map[string]string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refusals = why
}

// hold holds all answers from now on. The questions come through the channel.
func (u *fakeUpstream) hold() <-chan *question {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held, u.released = make(chan *question), make(chan struct{})
	return u.held
}

// release gives answers at once again, including the held ones that nobody has taken from the channel.
func (u *fakeUpstream) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.released)
	u.held = nil
}

func (u *fakeUpstream) setDown(down bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down = down
}

// setState sets what health says of it; nil: by what it does.
func (u *fakeUpstream) setState(state *api.UpstreamState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.shown = state
}

func (u *fakeUpstream) state() api.UpstreamState {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.shown != nil {
		return *u.shown
	}
	if u.down {
		crowded := api.Concurrency{Limit: 16, Now: 9, Reason: "upstream is slow"}
		return api.UpstreamState{State: "down", Since: time.Unix(2e9, 0), Reason: "connection refused", Concurrency: crowded}
	}
	last := time.Unix(2e9, 0)
	return api.UpstreamState{State: "up", Since: time.Unix(1e9, 0), LastSuccessAt: &last}
}

// set writes an entry as another host.
func (u *fakeUpstream) set(id journal.ID, value string) {
	if u.view != nil {
		u.swap(id, journal.Put, value, u.tick(), 0)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clock++
	o := journal.Observation{
		Value: value, ListBytes: wire.ListBytes(value), CreatedAt: u.clock, UpdatedAt: u.clock,
	}
	if past, ok := u.entries[id]; ok {
		o.CreatedAt = past.CreatedAt
	}
	u.entries[id] = o
}

func (u *fakeUpstream) remove(id journal.ID) {
	if u.view != nil {
		u.swap(id, journal.Delete, "", u.tick(), 0)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.entries, id)
}

func (u *fakeUpstream) holds(id journal.ID) (value string, held bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	o, held := u.entries[id]
	return o.Value, held
}

// take returns the questions since the last call.
func (u *fakeUpstream) take() []question {
	u.mu.Lock()
	defer u.mu.Unlock()
	asked := u.asked
	u.asked = nil
	return asked
}

// fakeFlusher settles writes when the test says so.
type fakeFlusher struct {
	journal  *journal.Journal
	upstream *fakeUpstream
	settled  func(journal.Write) // may be nil

	mu      sync.Mutex
	confirm func(w journal.Write) (settled bool, err error) // nil: upstream accepts the write
	await   func(ctx context.Context, id journal.ID, seq uint64) bool
	stuck   bool   // nothing can be flushed
	refuses bool   // upstream refuses what is flushed
	after   func() // called after each Flush; may be nil
	flushed []string
	tried   []string // arguments of TryNow
}

// settle sends an entry's newest write upstream; false if there is none.
func (f *fakeFlusher) settle(id journal.ID) bool {
	w, ok, err := f.journal.Newest(id)
	if err != nil {
		panic(err)
	}
	if !ok {
		return false
	}
	switch {
	case f.upstream.view != nil:
		f.upstream.swap(id, w.Op, w.Value, w.UpdatedAt, w.Seq)
	case w.Op == journal.Put:
		f.upstream.set(id, w.Value)
	default:
		f.upstream.remove(id)
	}
	if err := f.journal.Settle(w); err != nil {
		panic(err)
	}
	if f.settled != nil {
		f.settled(w)
	}
	return true
}

func (f *fakeFlusher) Flush(ctx context.Context, namespace string) (settled, dead, pending int, err error) {
	f.mu.Lock()
	f.flushed = append(f.flushed, namespace)
	stuck := f.stuck
	f.mu.Unlock()
	waiting := f.journal.PendingList(namespace, 1000)
	if stuck {
		<-ctx.Done()
		return 0, 0, len(waiting), ctx.Err()
	}
	for _, p := range waiting {
		if f.refuses {
			_, err = f.Drop(ctx, p.ID, 0)
			dead++
		} else if f.settle(p.ID) {
			settled++
		}
	}
	if f.after != nil {
		f.after()
	}
	return settled, dead, 0, err
}

func (f *fakeFlusher) Attempts(id journal.ID) (count int, last string, next time.Time) {
	if id.Key == "tried" {
		return 3, "no answer in time", time.Unix(2e9, 0).UTC()
	}
	return 0, "", time.Time{}
}

func (f *fakeFlusher) Paused(namespace string) string {
	return map[string]string{"locked": "HTTP 401"}[namespace]
}

func (f *fakeFlusher) Full(namespace string) string {
	return map[string]string{"full": "HTTP 507: namespace full is full"}[namespace]
}

func (f *fakeFlusher) Waits(namespace string) (why string, until time.Time) {
	if why := f.Paused(namespace); why != "" {
		return "paused: " + why, time.Unix(2e9, 0)
	}
	if why := f.Full(namespace); why != "" {
		return "full: " + why, time.Unix(2e9, 0)
	}
	return "", time.Time{}
}

func (f *fakeFlusher) EntryWaits(id journal.ID) (why string, until time.Time) {
	return f.Waits(id.Namespace)
}

func (f *fakeFlusher) TryNow(namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = append(f.tried, namespace)
}

func (f *fakeFlusher) Await(ctx context.Context, id journal.ID, seq uint64) bool {
	f.mu.Lock()
	await := f.await
	f.mu.Unlock()
	return await(ctx, id, seq)
}

func (f *fakeFlusher) Drop(ctx context.Context, id journal.ID, seq uint64) (journal.Write, error) {
	if f.stuck {
		<-ctx.Done()
		return journal.Write{}, ctx.Err()
	}
	w, ok, err := f.journal.Newest(id)
	if err == nil && (!ok || seq != 0 && seq != w.Seq) {
		err = journal.ErrNotPending
	}
	if err == nil {
		err = f.journal.DeadLetter(w, journal.Failure{Kind: journal.Dropped, Reason: "dropped by hand"})
	}
	return w, err
}

// Confirm sends the entry's pending write unless the test says otherwise.
func (f *fakeFlusher) Confirm(_ context.Context, id journal.ID, seq uint64, itself bool) (settled bool, err error) {
	f.mu.Lock()
	confirm := f.confirm
	f.mu.Unlock()
	w, ok, err := f.journal.Newest(id)
	switch {
	case err != nil || !ok:
		return ok && !itself, err
	case confirm != nil:
		return confirm(w)
	}
	return f.settle(id), nil
}
