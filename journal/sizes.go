package journal

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
)

const (
	// nearFull is the percentage of its limit at which a namespace counts as nearly full. Below
	// nearFullNoMore, it is no longer nearly full. The gap keeps the log from repeating itself.
	nearFull       = 80
	nearFullNoMore = 75
	// lookFrom is the percentage of its limit at which the journal begins to look up what a put
	// replaces. Below it, a put costs no lookup, and the count is too high by an eighth of the limit at
	// most.
	lookFrom = 25
	// logAgain is how long the log stays silent about a namespace whose size goes up and down.
	logAgain = time.Minute
	// learnedFor is how long a limit learned from upstream's refusal applies.
	learnedFor = time.Hour
)

// SizesOptions configures [Sizes].
type SizesOptions struct {
	// Limit returns the maximum size of a namespace, as [Sizes] counts; 0 means no limit. It must be
	// quick, and its answer may change.
	Limit func(namespace string) int64
	// Logger receives one line when a namespace is nearly full, and one when it is full. The journal's
	// writers wait for it. It must not be nil.
	Logger *slog.Logger
}

// Sizes estimates how much each namespace will hold upstream once everything pending is flushed. The
// journal refuses a put that makes a namespace larger than its limit. Sizes counts each value with the
// size that a listing shows: its characters up to the first NUL. Names do not count.
//
// Each write, answer from upstream and listing changes the count by the difference to what is known of
// an entry. A complete listing replaces the count. The count is approximate:
//
//   - A put counts as new until it settles, or a listing shows what it replaces. But if its namespace
//     holds lookFrom percent of its limit, the journal looks up what the put replaces.
//   - An entry still counts after its copy was removed to make room. Once a namespace has such entries,
//     an unknown entry that upstream shows adds nothing, because it may count already. A delete of an
//     unknown entry subtracts the size of the largest settled entry; a put counts as new. The rows of
//     a listing are a lower bound.
//
// The count is in memory only. [Journal.Run] builds it from the disk; until then, only writes since
// the start count. A nil *Sizes counts nothing and has no limit. The methods may be called
// concurrently.
type Sizes struct {
	opts SizesOptions

	mu     sync.Mutex // guards the fields below
	spaces map[string]*size
	near   map[string]*size // namespaces that were nearly full when they last changed
	read   bool             // the entries on disk are counted
}

// size is the estimate for one namespace.
type size struct {
	settled  int64 // what upstream holds, as estimated
	pending  int64 // what the newest pending writes add
	largest  int64 // an upper bound for the size of each settled entry
	unknown  bool  // the count includes entries that are no longer known
	refused  bool  // the change in progress is a refusal
	learned  *learnedLimit
	logged   level
	loggedAt time.Time
}

// learnedLimit is the limit that an upstream refusal has shown.
type learnedLimit struct {
	limit int64
	at    time.Time
}

// level is how full a namespace is, as last logged.
type level uint8

const (
	notFull level = iota
	nearlyFull
	full
)

// NewSizes returns sizes for one journal; see Options.Sizes.
func NewSizes(opts SizesOptions) *Sizes {
	return &Sizes{opts: opts, spaces: make(map[string]*size), near: make(map[string]*size)}
}

// NamespaceSize is the estimated size of a namespace and its limit.
type NamespaceSize struct {
	Bytes int64
	Limit int64 // 0 if neither the settings nor upstream give one
	// LearnedUntil is set if upstream's refusal gave the Limit, not the settings: upstream refused a
	// write when the namespace held about Limit bytes. The journal uses this limit until LearnedUntil.
	LearnedUntil time.Time
}

// Limited reports whether there is a limit.
func (r *NamespaceSize) Limited() bool { return r.Limit > 0 || !r.LearnedUntil.IsZero() }

// holds reports whether a namespace with more additional bytes holds percent of its limit.
func (r *NamespaceSize) holds(percent, more int64) bool {
	return r.Limited() && (r.Bytes+more)*100 >= r.Limit*percent
}

func (r *NamespaceSize) crossedBy(grows int64) bool {
	return grows > 0 && r.Limited() && r.Bytes+grows > r.Limit
}

// NamespaceFullError refuses a write that would make a namespace larger than its limit.
// Nothing was written.
type NamespaceFullError struct {
	Namespace string
	Grows     int64 // bytes that the write adds
	NamespaceSize
}

func (e *NamespaceFullError) Error() string {
	if !e.LearnedUntil.IsZero() {
		return fmt.Sprintf("namespace %s is full: upstream has refused a write for that when it held about %d bytes (quota.namespace_bytes, learned); "+
			"it holds about %d now, and this write adds %d. Delete entries, or write shorter values. botwired tries again at %s, and as soon as upstream takes more",
			e.Namespace, e.Limit, e.Bytes, e.Grows, e.LearnedUntil.UTC().Format("15:04 UTC"))
	}
	return fmt.Sprintf("namespace %s is full: it holds about %d bytes, this write adds %d, and quota.namespace_bytes allows %d. "+
		"Delete entries, write shorter values, or raise quota.namespace_bytes if upstream allows more",
		e.Namespace, e.Bytes, e.Grows, e.Limit)
}

// report returns the size and its limit. limit is the setting's; 0 means none. The count may be
// negative, because it does not include the disk yet, or entries that this host has not seen. The
// caller holds mu.
func (sp *size) report(limit int64) NamespaceSize {
	if sp == nil {
		return NamespaceSize{Limit: limit}
	}
	r := NamespaceSize{Bytes: sp.settled + sp.pending, Limit: limit}
	if sp.learned == nil {
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

// shown returns the size as callers see it: never negative.
func (r NamespaceSize) shown() NamespaceSize {
	r.Bytes = max(0, r.Bytes)
	return r
}

// Of returns the size of a namespace.
func (s *Sizes) Of(namespace string) NamespaceSize {
	if s == nil {
		return NamespaceSize{}
	}
	limit := s.opts.Limit(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spaces[namespace].report(limit).shown()
}

// NearlyFull returns, by name, the namespaces that hold at least 80 % of their limit.
func (s *Sizes) NearlyFull() map[string]NamespaceSize {
	all := make(map[string]NamespaceSize)
	if s == nil {
		return all
	}
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.near))
	s.mu.Unlock()
	for _, namespace := range names {
		if r := s.Of(namespace); r.holds(nearFull, 0) {
			all[namespace] = r
		}
	}
	return all
}

// Learn records that upstream has refused a write because the namespace is full. The present size
// becomes the limit for an hour, or until upstream accepts a write that makes the namespace larger or
// deletes an unknown entry.
func (s *Sizes) Learn(namespace string) {
	s.change(namespace, func(sp *size) {
		sp.settled = max(sp.settled, -sp.pending)
		sp.learned = &learnedLimit{sp.settled + sp.pending, time.Now()} // guard 18.22
		sp.refused = true
	})
}

// Changed compares all namespaces with the limits now. Otherwise a namespace is compared at its next
// change.
func (s *Sizes) Changed() {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.spaces))
	s.mu.Unlock()
	for _, namespace := range names {
		s.change(namespace, func(*size) {})
	}
}

// change changes the count of a namespace. It logs if the namespace becomes nearly full, or if a
// refused write shows that it is full.
func (s *Sizes) change(namespace string, by func(*size)) {
	if s == nil {
		return
	}
	limit := s.opts.Limit(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[namespace]
	if sp == nil {
		sp = &size{}
		s.spaces[namespace] = sp
	}
	sp.calm(sp.report(limit))
	by(sp)
	r, now := sp.report(limit), notFull
	switch {
	case sp.refused:
		now, sp.refused = full, false
	case r.holds(nearFull, 0):
		now = nearlyFull
	default:
		sp.calm(r)
	}
	if r.holds(nearFull, 0) {
		s.near[namespace] = sp
	} else if delete(s.near, namespace); sp.settled == 0 && sp.pending == 0 && sp.learned == nil && sp.logged == notFull {
		delete(s.spaces, namespace)
	}
	if now > sp.logged {
		sp.logged, sp.loggedAt = now, time.Now()
		s.log(namespace, now, r)
	}
}

// calm allows new log lines about a namespace that has been well below its limit for a while.
func (sp *size) calm(r NamespaceSize) {
	if sp.logged != notFull && !r.holds(nearFullNoMore, 0) && time.Since(sp.loggedAt) >= logAgain {
		sp.logged = notFull
	}
}

func (s *Sizes) log(namespace string, now level, r NamespaceSize) {
	what := "a namespace is nearly full: at its limit, writes that make it larger are refused"
	if now == full {
		what = "a namespace is full: writes that make it larger are refused until entries are deleted or the limit is raised"
	}
	from := "quota.namespace_bytes"
	if !r.LearnedUntil.IsZero() {
		from = "upstream"
	}
	s.opts.Logger.Warn(what, "namespace", namespace, "bytes", r.Bytes, "limit", r.Limit, "limit_from", from)
}

// sizing is the part of a write's admission that concerns sizes.
type sizing struct {
	limit    int64 // the setting's limit; 0 means none
	anySize  bool  // accept the write at any size, because a person or upstream has decided
	trial    bool  // only check whether the write would be accepted
	looked   bool  // base was looked up
	base     int   // the entry's size without its pending write; 0 if unknown
	replaces int32 // bytes that the count subtracts for this write
}

// putSize returns what a write adds to the size of its namespace.
func putSize(op Op, listBytes int) int64 {
	if op == Put {
		return int64(listBytes)
	}
	return 0
}

// admit counts a write or refuses it. For a write on trial, it only checks. If look is true, it did
// neither: the caller must look up the entry first. latest is the entry's newest pending write, if one
// exists.
func (s *Sizes) admit(a *appending, latest *record.Version, exists bool) (look bool, err error) {
	now, was := putSize(a.Op, a.ListBytes), int64(a.base) // guard 18.16
	if exists {
		was = putSize(latest.Op, int(latest.ListBytes))
	}
	s.change(a.Namespace, func(sp *size) {
		r := sp.report(a.limit)
		switch {
		case !a.anySize && r.crossedBy(now-was): // guard 18.15
			if look = !exists && !a.looked; !look { // guard 18.17
				sp.refused = r.Bytes > 0
				err = &NamespaceFullError{Namespace: a.Namespace, Grows: now - was, NamespaceSize: r.shown()}
			}
		case a.trial:
		default:
			sp.pending += now - was
			if !exists {
				a.replaces = int32(was)
			}
		}
	})
	return look, err
}

// restored counts a pending write of an earlier process.
func (s *Sizes) restored(id ID, v *record.Version) {
	s.change(id.Namespace, func(sp *size) {
		sp.pending += putSize(v.Op, int(v.ListBytes))
	})
}

// retired counts that an entry's last pending write has left the pending set.
func (s *Sizes) retired(e *pending.Entry, last *record.Version) {
	s.change(e.ID().Namespace, func(sp *size) {
		sp.pending -= putSize(last.Op, int(last.ListBytes))
		sp.pending += int64(e.Replaces) // guard 18.29
	})
}

// followed counts that upstream has taken a write while a newer one to its entry is pending. The newer
// one now replaces exactly that write.
func (s *Sizes) followed(e *pending.Entry, w *Write) {
	s.change(w.Namespace, func(sp *size) {
		now := putSize(w.Op, w.ListBytes)
		sp.pending -= now - int64(e.Replaces) // guard 18.30
		e.Replaces = int32(now)
	})
}

// base is an entry's size upstream, as far as known.
type base struct {
	bytes int64
	known bool
}

// resizing is a change of an entry's size upstream.
type resizing struct {
	from      base
	to        int64
	kept      bool // a copy or a row of the entry is kept
	confirmed bool // upstream has accepted a write of this journal
}

// resized counts that an entry's size upstream has changed.
func (s *Sizes) resized(namespace string, c resizing) {
	s.change(namespace, func(sp *size) {
		if hasRoom := c.to > c.from.bytes || c.to == 0 && !c.from.known; hasRoom && c.confirmed {
			sp.learned = nil
		}
		from := c.from.bytes
		switch {
		case c.from.known || !sp.unknown:
		case !c.confirmed: // the count may already include the entry
			from = min(max(0, sp.settled), c.to) // guard 18.32
		case c.to == 0: // guard 18.28
			from = min(sp.settled, sp.largest)
		}
		sp.settled += c.to - from // guard 18.19
		sp.unknown = sp.unknown || !c.kept && c.to > 0
		sp.largest = max(sp.largest, c.to)
	})
}

// forgot records that some entries of a namespace may no longer be known. They still count.
func (s *Sizes) forgot(namespace string) {
	s.change(namespace, func(sp *size) { sp.unknown = true })
}

// forgotAny records that some entries of all namespaces may no longer be known.
func (s *Sizes) forgotAny() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spaces {
		sp.unknown = true
	}
}

// relisting sums up how a listing differs from what was known.
type relisting struct {
	all      int64 // list bytes of all rows
	grown    int64 // growth of the known entries
	found    int64 // list bytes of the rows of unknown entries
	replaced int64 // list bytes of the rows of entries with a pending write, which are not subtracted yet
}

// relisted counts a listing. A complete listing replaces the count; an incomplete one is its lower
// bound. Until the disk is counted, only the difference counts, and the rest comes with the disk.
func (s *Sizes) relisted(namespace string, r relisting, complete bool) {
	s.change(namespace, func(sp *size) {
		if sp.settled += r.grown; !sp.unknown {
			sp.settled += r.found
		}
		if s.read && (complete || sp.settled < r.all) {
			sp.settled = r.all // guard 18.20
		}
		sp.pending -= r.replaced
		sp.unknown = !complete // upstream no longer lists the other entries
	})
}

// unsettle resets the settled sizes, because a snapshot holds them. The caller is in the store's order.
func (s *Sizes) unsettle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spaces {
		sp.settled = 0
	}
}

// counted counts an entry on disk, and what a pending write replaces of it.
func (s *Sizes) counted(namespace string, bytes, replaced int64) {
	s.change(namespace, func(sp *size) {
		sp.settled += bytes // guard 18.21
		sp.pending -= replaced
		sp.largest = max(sp.largest, bytes)
	})
}

// allCounted records that the entries on disk are counted. It recomputes limits learned before, because
// they did not include these entries.
func (s *Sizes) allCounted() {
	s.mu.Lock()
	s.read = true
	for _, sp := range s.spaces {
		if sp.learned != nil {
			sp.learned.limit = max(0, sp.settled+sp.pending)
		}
	}
	s.mu.Unlock()
	s.Changed()
}
