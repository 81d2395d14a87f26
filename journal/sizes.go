package journal

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// nearFull is the percentage of its limit from which on a namespace is nearly full, and
	// nearFullNoMore the one below which it is not any more. Between the two, the log does
	// not say it again.
	nearFull       = 80
	nearFullNoMore = 75
	// logAgain is how long the log says nothing more of a namespace whose size goes up and
	// down.
	logAgain = time.Minute
	// learnedFor is how long upstream's word that a namespace is full is believed.
	learnedFor = time.Hour
)

// SizesOptions configures sizes.
type SizesOptions struct {
	// Limit returns the most that a namespace may hold, as [Sizes] counts; 0 is no limit. It
	// is quick, and its answer may change.
	Limit func(namespace string) int64
	// Logger receives one line when a namespace is nearly full, and one when it is full. It
	// must not be nil.
	Logger *slog.Logger
}

// Sizes knows how much each namespace holds upstream once everything pending is flushed, as
// far as that is known here, and the journal takes no write that makes a namespace larger
// than its limit. It counts what a listing shows as the size of a value: characters up to the
// first NUL. Names do not count.
//
// An entry counts with its pending write; else with its row in the namespace's listing; else
// with its settled copy. An entry of which nothing is known counts for nothing. So a count is
// seldom too high, and too low in a namespace that has been little read here.
//
// An entry whose copy was removed to make room counts until the journal is closed. As nobody
// knows any more which entry that was, a write to an entry of which nothing is known is taken
// for a write to the largest of them.
//
// Far from the limit, the first pending write to an entry is taken without a look at what has
// settled of the entry: it is unmeasured, and counts beside that. An unmeasured entry is measured
// when somebody asks for the size, when the namespace comes near its limit, and before the entry
// leaves the pending set. So every size that is shown, and every refusal, is exact.
//
// The count is in memory only. [Journal.Run] makes it from what is on the disk; until then,
// only what was written since the start counts. A nil *Sizes counts nothing and has no limit.
// The methods may be called concurrently.
type Sizes struct {
	opts    SizesOptions
	seed    maphash.Seed
	journal *measurer // of the journal that the sizes are of; nil before it is open

	// settlings count, by a hash of the entry, the changes of its base: a write reads the base
	// before it has its place in the order, and sees by them whether it has to read again.
	settlings [1 << 12]atomic.Uint32
	// outdated says that copies have gone of which the count does not know.
	outdated    atomic.Bool
	hasUnlogged atomic.Bool // there is something to log

	// mu guards the fields below. It is the innermost lock; its holders work in memory only.
	mu       sync.Mutex
	spaces   map[string]*size
	near     map[string]*size // of the spaces, those that may be nearly full: the log has said so, or they are to be counted
	count    int              // number of the last recount
	counting bool             // it is under way
	// deferring is whether writes far from the limit are taken unmeasured: not before the first
	// recount, nor during one.
	deferring bool
	unlogged  []levelChange
}

// size is what a namespace holds.
type size struct {
	settled int64 // entries with no pending write
	pending int64 // the newest pending puts
	removed int64 // entries whose copies and rows were removed since the start
	largest int64 // no entry that was settled here is larger

	// since is how much settled has changed since the recount of that number began.
	since int64
	count int
	// unmeasured entries count with what has settled of them and with their pending write. exact
	// says that no more are to come, as the limit is near, and exacting how many callers need the
	// exact count. walking is closed when the one who measures them has ended; nil if nobody does.
	unmeasured int
	exacting   int
	walking    chan struct{}
	learned    *learnedLimit
	exact      bool
	logged     level
	loggedAt   time.Time
}

// learnedLimit is what upstream's refusal has shown.
type learnedLimit struct {
	limit int64
	at    time.Time
}

// level is how full a namespace is, as far as the log has said.
type level uint8

const (
	notFull level = iota
	nearlyFull
	full
)

type levelChange struct {
	namespace string
	level     level
	NamespaceSize
}

// NewSizes returns sizes for one journal; see Options.Sizes.
func NewSizes(opts SizesOptions) *Sizes {
	return &Sizes{opts: opts, seed: maphash.MakeSeed(), spaces: make(map[string]*size), near: make(map[string]*size)}
}

// NamespaceSize is how much a namespace holds, and the most that it may hold.
type NamespaceSize struct {
	Bytes int64
	Limit int64 // 0 if there is none and upstream has not shown one
	// LearnedUntil is not zero if Limit is not the setting's: upstream has refused a write as
	// the namespace was full at about Limit, which is believed until then.
	LearnedUntil time.Time
}

// Of returns the size of a namespace.
func (s *Sizes) Of(namespace string) NamespaceSize {
	if s == nil {
		return NamespaceSize{}
	}
	limit := s.opts.Limit(namespace)
	var r NamespaceSize
	s.show(namespace, func(sp *size) { r = sp.report(limit) })
	return r
}

// NearlyFull returns, by name, the namespaces that hold 80 % of their limit and more.
func (s *Sizes) NearlyFull() map[string]NamespaceSize {
	all := make(map[string]NamespaceSize)
	if s == nil {
		return all
	}
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.near))
	s.mu.Unlock()
	for _, namespace := range names {
		if r := s.Of(namespace); r.isNear(nearFull) {
			all[namespace] = r
		}
	}
	return all
}

// Learn takes in that upstream has refused a write because the namespace is full. Until an
// hour has passed, upstream takes a write that makes it larger, or an entry is deleted that
// was not known, the present size is the limit.
func (s *Sizes) Learn(namespace string) {
	if s == nil {
		return
	}
	limit := s.opts.Limit(namespace)
	s.show(namespace, func(*size) {
		sp := s.of(namespace)
		sp.learned = &learnedLimit{sp.bytes(), time.Now()}
		s.note(namespace, sp, limit, true)
	})
	s.tell()
}

// Changed has the namespaces judged by other limits at once, and not only when they change.
func (s *Sizes) Changed() {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.spaces))
	s.mu.Unlock()
	for _, namespace := range names {
		limit := s.opts.Limit(namespace)
		s.mu.Lock()
		s.note(namespace, s.of(namespace), limit, false)
		s.mu.Unlock()
	}
	s.tell()
}

// NamespaceFullError refuses a write that would make a namespace larger than its limit.
// Nothing was written.
type NamespaceFullError struct {
	Namespace string
	Grows     int64 // by so much
	NamespaceSize
}

func (e *NamespaceFullError) Error() string {
	if !e.LearnedUntil.IsZero() {
		return fmt.Sprintf("namespace %s is full: upstream has refused a write for that when it held about %d bytes (quota.namespace_bytes, learned); "+
			"it holds %d now, and this write adds %d. Delete entries, or write shorter values. botwired tries again at %s, and as soon as upstream takes more",
			e.Namespace, e.Limit, e.Bytes, e.Grows, e.LearnedUntil.UTC().Format("15:04 UTC"))
	}
	return fmt.Sprintf("namespace %s is full: it holds %d bytes, this write adds %d, and quota.namespace_bytes allows %d. "+
		"Delete entries, write shorter values, or raise quota.namespace_bytes if upstream allows more",
		e.Namespace, e.Bytes, e.Grows, e.Limit)
}

// of returns the namespace's size, made if need be. The caller holds mu.
func (s *Sizes) of(namespace string) *size {
	sp := s.spaces[namespace]
	if sp == nil {
		sp = &size{}
		s.spaces[namespace] = sp
	}
	return sp
}

// bytes is the count. It is less than nothing while what is on the disk has not been counted.
func (sp *size) bytes() int64 {
	if sp == nil {
		return 0
	}
	return max(0, sp.settled+sp.pending+sp.removed)
}

// report is the size by a limit that is set, 0 for none. The caller holds mu.
func (sp *size) report(limit int64) NamespaceSize {
	r := NamespaceSize{Bytes: sp.bytes(), Limit: limit}
	if sp == nil || sp.learned == nil {
		return r
	}
	until := sp.learned.at.Add(learnedFor)
	if !time.Now().Before(until) {
		sp.learned = nil
	} else if limit == 0 || sp.learned.limit < limit {
		r.Limit, r.LearnedUntil = sp.learned.limit, until
	}
	return r
}

// Limited reports whether there is a limit.
func (r *NamespaceSize) Limited() bool { return r.Limit > 0 || !r.LearnedUntil.IsZero() }

// isNear reports whether a namespace holds so many percent of its limit.
func (r *NamespaceSize) isNear(percent int64) bool {
	return r.Limited() && r.Bytes*100 >= r.Limit*percent
}

// note notices when a namespace becomes nearly full, or full, which a refused write shows, and
// when it is not any more. It forgets one that holds nothing. The caller holds mu.
func (s *Sizes) note(namespace string, sp *size, limit int64, refused bool) {
	if !s.counting {
		sp.since = 0
	}
	r := sp.report(limit)
	if sp.unmeasured > 0 && r.isNear(nearFullNoMore) { // the next write, or whoever asks, has it counted
		s.near[namespace] = sp
		return
	}
	now := notFull
	switch {
	case refused:
		now = full
	case r.isNear(nearFull):
		now = nearlyFull
	case !r.isNear(nearFullNoMore) && (sp.logged == notFull || time.Since(sp.loggedAt) >= logAgain):
		sp.logged, sp.loggedAt = notFull, time.Time{}
	}
	if now > sp.logged {
		sp.logged, sp.loggedAt = now, time.Now()
		s.unlogged = append(s.unlogged, levelChange{namespace, now, r})
		s.hasUnlogged.Store(true)
	}
	switch {
	case sp.logged == notFull:
		delete(s.near, namespace)
	case s.near[namespace] == nil:
		s.near[namespace] = sp
	}
	if *sp == (size{count: sp.count, largest: sp.largest, exact: sp.exact, logged: sp.logged, loggedAt: sp.loggedAt}) {
		delete(s.spaces, namespace)
		delete(s.near, namespace)
	}
}

// tell logs what has happened. It is called with no lock held.
func (s *Sizes) tell() {
	if s == nil || !s.hasUnlogged.Load() {
		return
	}
	s.mu.Lock()
	unlogged := s.unlogged
	s.unlogged = nil
	s.hasUnlogged.Store(false)
	s.mu.Unlock()
	for _, n := range unlogged {
		what := "a namespace is nearly full: at its limit, writes that make it larger are refused"
		if n.level == full {
			what = "a namespace is full: writes that make it larger are refused until entries are deleted or the limit is raised"
		}
		s.opts.Logger.Warn(what, "namespace", n.namespace, "bytes", n.Bytes, "limit", n.Limit,
			"limit_from", n.limitFrom())
	}
}

func (r *NamespaceSize) limitFrom() string {
	if !r.LearnedUntil.IsZero() {
		return "upstream"
	}
	return "quota.namespace_bytes"
}
