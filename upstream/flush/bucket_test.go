package flush_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
)

// mishap is what happens to a swap. The zero value means nothing.
type mishap uint8

const (
	fine     mishap = iota
	refused         // it is not carried out, and fails with failed
	lost            // it is carried out, and not answered
	late            // not answered, and carried out a while later unless another write was faster
	vanished        // not answered, and never carried out
	crowded         // a conflict without a known winner
	mishaps
)

// bucket is an upstream with versions, for several hosts.
type bucket struct {
	t       testing.TB
	latency time.Duration

	mu       sync.Mutex
	revision uint64
	entries  map[journal.ID][]upstream.Version // all versions, the last one last
	arrived  map[uint64]time.Time              // by revision
	swaps    []upstream.Proposal
	asked    int // number of Get requests
	// mishap decides the fate of a swap; nil: none. It is called with mu held.
	mishap func(host string, p upstream.Proposal) mishap
	failed *upstream.Error // the error of refused swaps
	away   map[string]bool // hosts that cannot reach it
}

func newBucket(t testing.TB) *bucket {
	return &bucket{
		t: t, latency: 10 * time.Millisecond, entries: make(map[journal.ID][]upstream.Version),
		arrived: make(map[uint64]time.Time), away: make(map[string]bool),
		failed: &upstream.Error{Verdict: upstream.Transient, Reason: "no leader"},
	}
}

func (b *bucket) set(change func(*bucket)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// last returns an entry's last version. The caller holds mu.
func (b *bucket) last(id journal.ID) upstream.Version {
	all := b.entries[id]
	if len(all) == 0 {
		return upstream.Version{}
	}
	return all[len(all)-1]
}

func (b *bucket) now(id journal.ID) upstream.Version {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last(id)
}

// carryOut makes a proposal the last version, if allowed. The caller holds mu.
func (b *bucket) carryOut(p upstream.Proposal) (v upstream.Version, conflict bool) {
	over := b.last(p.ID)
	if over.Revision != p.Over.Revision {
		return over, true
	}
	b.revision++
	v = upstream.Version{
		Revision: b.revision, Deleted: p.Op == journal.Delete, Value: p.Value, ListBytes: p.ListBytes, CreatedAt: p.WrittenAt,
		WrittenAt: p.WrittenAt, Writer: p.Writer, Author: p.Author,
	}
	if over.Present() {
		v.CreatedAt = over.CreatedAt
	}
	if over.Revision != 0 && v.WrittenAt <= over.WrittenAt {
		b.t.Errorf("%s: a version of %f takes the place of one of %f", p.ID, v.WrittenAt, over.WrittenAt)
	}
	b.entries[p.ID] = append(b.entries[p.ID], v)
	b.arrived[v.Revision] = time.Now()
	return v, false
}

// foreign writes as a host that is not part of the test.
func (b *bucket) foreign(id journal.ID, op journal.Op, value string, at time.Time) upstream.Version {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, _ := b.carryOut(upstream.Proposal{
		ID: id, Op: op, Value: value, ListBytes: len(value), WrittenAt: float64(at.UnixMicro()) / 1e6,
		Writer: upstream.Writer{Host: "z", Seq: b.revision + 1000}, Over: b.last(id),
	})
	return v
}

// seat is one host's connection to a bucket. Without a request, the host knows the versions that its
// watch has delivered: the watch lags behind by lag, and delivers nothing while it is blind.
type seat struct {
	*bucket
	host  string
	lag   time.Duration
	blind bool
}

// view returns the version that the host knows of an entry.
func (s *seat) view(id journal.ID) (v upstream.Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, version := range s.entries[id] {
		if version.Writer.Host == s.host || time.Since(s.arrived[version.Revision]) >= s.lag {
			v = version
		}
	}
	return v
}

func (s *seat) Exact() bool { return true }

func (s *seat) Named(string) bool { return true }

func (s *seat) Known(id journal.ID) (upstream.Version, bool) {
	v := s.view(id)
	v.Value = ""
	return v, !s.blind
}

// notBefore is the journal's NotBefore.
func (s *seat) notBefore(id journal.ID) float64 {
	if s.blind {
		return 0
	}
	return s.view(id).WrittenAt
}

// travel waits for one way of a request, there or back.
func (s *seat) travel(ctx context.Context) error {
	s.mu.Lock()
	away := s.away[s.host]
	s.mu.Unlock()
	if away {
		return &upstream.Error{Verdict: upstream.Unsent, Reason: "no servers", Unreachable: true}
	}
	select {
	case <-time.After(s.latency / 2):
		return nil
	case <-ctx.Done():
		return &upstream.Error{Verdict: upstream.Unanswered, Reason: ctx.Err().Error()}
	}
}

func (s *seat) Get(ctx context.Context, id journal.ID) (upstream.Version, error) {
	if err := s.travel(ctx); err != nil {
		return upstream.Version{}, err
	}
	s.mu.Lock()
	s.asked++
	v := s.last(id)
	s.mu.Unlock()
	return v, s.travel(ctx)
}

func (s *seat) Swap(ctx context.Context, p upstream.Proposal) (upstream.Version, error) {
	if err := s.travel(ctx); err != nil {
		return upstream.Version{}, err
	}
	if p.Writer.Host != s.host {
		s.t.Errorf("%s swaps as %+v", s.host, p.Writer)
	}
	s.mu.Lock()
	s.swaps = append(s.swaps, p)
	what := fine
	if s.mishap != nil {
		what = s.mishap(s.host, p)
	}
	var v upstream.Version
	conflict := false
	switch what {
	case fine, lost:
		v, conflict = s.carryOut(p)
	case crowded:
		conflict = true
	case late:
		time.AfterFunc(7*time.Second, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.carryOut(p)
		})
	}
	failed := s.failed
	s.mu.Unlock()
	switch {
	case what == refused:
		return upstream.Version{}, failed
	case what == crowded:
		return upstream.Version{}, &upstream.Conflict{}
	case what != fine:
		time.Sleep(timeout)
		return upstream.Version{}, &upstream.Error{Verdict: upstream.Unanswered, Reason: "no answer"}
	case conflict:
		return upstream.Version{}, &upstream.Conflict{Now: &v}
	}
	if err := s.travel(ctx); err != nil {
		return upstream.Version{}, &upstream.Error{Verdict: upstream.Unanswered, Reason: "no answer"}
	}
	return v, nil
}

// The flusher never calls List.
func (s *seat) List(context.Context, string) ([]journal.Row, bool, error) { panic("a list") }

// versioned is a rig over a bucket.
type versioned struct {
	*rig
	seat *seat
}

// newVersioned opens a journal on fs and flushes it to a bucket.
func newVersioned(t testing.TB, s *seat, fs vfs.FS, adjust ...func(*flush.Options)) *versioned {
	t.Helper()
	r := &rig{fake: newFake(t), t: t, fs: fs, fenced: s.host}
	r.adjust = func(o *flush.Options) {
		o.Engine, o.Host = s, s.host
		for _, change := range adjust {
			change(o)
		}
	}
	openRig(r, func(o *journal.Options) { o.Exact, o.NotBefore = true, s.notBefore })
	return &versioned{r, s}
}

// reopened stops the rig and starts it again on the same disk.
func (v *versioned) reopened() *versioned {
	v.t.Helper()
	v.stop()
	return newVersioned(v.t, v.seat, v.fs)
}

// wantNow checks an entry's last version.
func (v *versioned) wantNow(id journal.ID, want string, deleted bool) {
	v.t.Helper()
	if got := v.seat.now(id); got.Revision == 0 || got.Value != want || got.Deleted != deleted {
		v.t.Errorf("upstream has %+v of %s, want %q (deleted: %v)", got, id, want, deleted)
	}
}

// swapped returns the number of swaps since the last call.
func (v *versioned) swapped() int {
	v.seat.mu.Lock()
	defer v.seat.mu.Unlock()
	n := len(v.seat.swaps)
	v.seat.swaps = nil
	return n
}
