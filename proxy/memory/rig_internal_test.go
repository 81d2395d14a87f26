package memory

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func id(namespace, key string) journal.ID { return journal.ID{Namespace: namespace, Key: key} }

func noError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// usual is the default policy.
var usual = cache.Policy{
	FreshFor: 10 * time.Second, StaleWhileRevalidate: time.Minute, StaleIfError: cache.Forever, AbsentFor: 2 * time.Second,
}

// rig is a memory over a real journal and a real cache.
type rig struct {
	*Memory
	t        *testing.T
	upstream *fakeUpstream
}

func newRig(t *testing.T, adjust ...func(*journal.Options, *Options)) *rig {
	t.Helper()
	answers, err := cache.New(1 << 20)
	noError(t, err)
	t.Cleanup(answers.Close)
	logger := slog.New(slog.DiscardHandler)
	stored := journal.Options{Dir: "journal", FS: vfs.NewMem(), Logger: logger}
	upstream := &fakeUpstream{entries: make(map[journal.ID]string)}
	opts := Options{
		Cache: answers, Upstream: upstream, Tasks: tasks.New(), Metrics: metrics.New(metrics.Build{}), Logger: logger,
		Policy: func(string) cache.Policy { return usual },
	}
	for _, a := range adjust {
		a(&stored, &opts)
	}
	opts.Journal, err = journal.Open(stored)
	noError(t, err)
	t.Cleanup(func() { noError(t, opts.Journal.Close()) })
	opts.Journal.Subscribe(func(c journal.Change) { answers.Changed(c.Namespace, c.Key) })
	noError(t, opts.Journal.Run(t.Context()))
	t.Cleanup(opts.Tasks.Close)
	return &rig{New(opts), t, upstream}
}

// put writes an entry.
func (r *rig) put(id journal.ID, value string) {
	r.t.Helper()
	_, err := r.Do(r.t.Context(), &Request{Verb: PutEntry, ID: id, Value: value})
	noError(r.t, err)
}

// settle settles the entry's pending write.
func (r *rig) settle(id journal.ID) {
	r.t.Helper()
	w, ok, err := r.journal.Newest(id)
	if err != nil || !ok {
		r.t.Fatalf("%s has nothing pending: %v", id, err)
	}
	noError(r.t, r.journal.Settle(w))
}

// wantValue checks the answer to a GET.
func (r *rig) wantValue(id journal.ID, value string) {
	r.t.Helper()
	got, err := r.Do(r.t.Context(), &Request{Verb: GetEntry, ID: id, Directives: AnyAge})
	if err != nil || !strings.Contains(string(got.Body(nil)), `"`+value+`"`) {
		r.t.Errorf("%s, %v, want %s", got.Body(nil), err, value)
	}
}

// fakeUpstream holds entries, and holds back its answers if held is not nil.
type fakeUpstream struct {
	mu      sync.Mutex // guards entries
	entries map[journal.ID]string
	held    chan chan struct{}
	asked   atomic.Int64
	fails   atomic.Bool // no request has an answer
}

// away is the error of a request without an answer.
type away struct{}

func (away) Error() string             { return "away" }
func (away) RetryAfter() time.Duration { return 0 }

func (u *fakeUpstream) set(id journal.ID, value string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.entries[id] = value
}

func (u *fakeUpstream) Get(_ context.Context, id journal.ID, _ bool) (*journal.Observation, error) {
	u.asked.Add(1)
	if u.fails.Load() {
		return nil, away{}
	}
	u.mu.Lock()
	value, ok := u.entries[id]
	u.mu.Unlock()
	if u.held != nil {
		answer := make(chan struct{})
		u.held <- answer
		<-answer
	}
	if !ok {
		return nil, nil //nolint:nilnil // upstream does not hold the entry
	}
	return &journal.Observation{Value: value, CreatedAt: 1, UpdatedAt: 1}, nil
}

func (*fakeUpstream) List(context.Context, string, bool) ([]journal.Row, bool, error) {
	return nil, true, nil
}

func (*fakeUpstream) Patience(journal.ID) time.Duration { return 5 * time.Second }

func (*fakeUpstream) TooLong() error { return context.DeadlineExceeded }
