package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/internal/walk"
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
	// countAllEvery is how often counts are made again that are at most too high, and far from the limit.
	countAllEvery = time.Minute
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
// A namespace's count adds up, for each known entry, its pending write, else its row in the listing,
// else its settled copy. Each write of this host changes the count at once, by the difference to what it
// replaces; but below lookFrom percent of the limit, a put counts as new. Whatever else changes what is
// known makes the count loose, and the namespace is counted again: in the background, or before a write
// is refused. An entry that upstream has shown also counts as new; a count that is only too high is made
// again from lookFrom percent on, and each minute.
//
// The count is in memory only. [Journal.Run] builds it from the disk; until then, only writes since
// the start count. A nil *Sizes shows no namespaces. The methods may be called
// concurrently.
type Sizes struct {
	opts   SizesOptions
	copies *copies

	counting sync.Mutex   // one count of a namespace at a time; taken before all other locks
	pace     pending.Pace // of counting in the background
	allAt    time.Time    // when the background last counted every loose namespace

	mu     sync.Mutex // guards the fields below
	spaces map[string]*size
	near   map[string]*size // namespaces that were nearly full when they last changed
	loose  map[string]bool  // namespaces to count again: at once, or else near the limit only
}

// size is the estimate for one namespace.
type size struct {
	bytes    int64
	since    int64 // what writes have added since the count in progress began
	refused  bool  // the change in progress is a refusal
	learned  *learnedLimit
	logged   level
	loggedAt time.Time
}

// learnedLimit is the limit that an upstream refusal has shown.
type learnedLimit struct {
	limit int64
	at    time.Time
	loose bool // the next count replaces it
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
	return &Sizes{opts: opts, spaces: make(map[string]*size), near: make(map[string]*size), loose: make(map[string]bool)}
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

// report returns the size and its limit. limit is the setting's; 0 means none. Before the disk is
// counted, the count may be negative. The caller holds mu.
func (sp *size) report(limit int64) NamespaceSize {
	if sp == nil {
		return NamespaceSize{Limit: limit}
	}
	r := NamespaceSize{Bytes: sp.bytes, Limit: limit}
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
		sp.learned = &learnedLimit{max(0, sp.bytes), time.Now(), true} // guard 18.22
		sp.refused, s.loose[namespace] = true, true
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
// refused write shows that it is full. A loose count may be too high, and says nothing.
func (s *Sizes) change(namespace string, by func(*size)) {
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
	r, now, refused := sp.report(limit), notFull, sp.refused
	sp.refused = false
	if s.isLoose(namespace) && !refused {
		return
	}
	switch {
	case refused:
		now = full
	case r.holds(nearFull, 0):
		now = nearlyFull
	default:
		sp.calm(r)
	}
	if r.holds(nearFull, 0) {
		s.near[namespace] = sp
	} else if delete(s.near, namespace); sp.bytes == 0 && sp.learned == nil && sp.logged == notFull {
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
	level, what := slog.LevelInfo, "a namespace is nearly full: at its limit, writes that make it larger are refused"
	if now == full {
		level, what = slog.LevelWarn, "a namespace is full: writes that make it larger are refused until entries are deleted or the limit is raised"
	}
	from := "quota.namespace_bytes"
	if !r.LearnedUntil.IsZero() {
		from = "upstream"
	}
	s.opts.Logger.Log(context.Background(), level, what, "namespace", namespace, "bytes", r.Bytes, "limit", r.Limit, "limit_from", from)
}

// sizing is the part of a write's admission that concerns sizes.
type sizing struct {
	limit   int64 // the setting's limit; 0 means none
	anySize bool  // accept the write at any size, because a person or upstream has decided
	looked  bool  // base was looked up
	base    int   // the entry's size without its pending write; 0 if unknown
}

// putSize returns what a write adds to the size of its namespace.
func putSize(op Op, listBytes int) int64 {
	if op == Put {
		return int64(listBytes)
	}
	return 0
}

// admit counts a write or refuses it. If look is true, it did neither: the caller must look up the entry first.
// latest is the entry's newest pending write, if one exists.
func (s *Sizes) admit(a *appending, latest *record.Pending, exists bool) (look bool, err error) {
	now, was := putSize(a.Op, a.ListBytes), int64(a.base) // guard 18.16
	if exists {
		was = putSize(latest.Op, int(latest.ListBytes))
	}
	s.change(a.Namespace, func(sp *size) {
		r := sp.report(a.limit)
		switch {
		case !a.anySize && r.crossedBy(now-was): // guard 18.15
			if look = !exists && !a.looked; !look { // guard 18.17
				sp.refused = r.Bytes > 0 && !s.isLoose(a.Namespace)
				err = &NamespaceFullError{Namespace: a.Namespace, Grows: now - was, NamespaceSize: r.shown()}
			}
		default:
			sp.bytes += now - was
			sp.since += now - was
			if !exists && !a.looked {
				s.overstate(a.Namespace)
			}
		}
	})
	return look, err
}

// accepted notes that upstream has accepted a write to an entry that had this size; 0 if unknown.
func (s *Sizes) accepted(w *Write, was int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := putSize(w.Op, w.ListBytes)
	if sp := s.spaces[w.Namespace]; sp != nil && (now > int64(was) || now == 0 && was == 0) {
		sp.learned = nil
	}
}

// overstate notes that a count may be too high. That matters near the limit. The caller holds mu.
func (s *Sizes) overstate(namespace string) {
	if !s.isLoose(namespace) {
		s.loose[namespace] = false
	}
}

// found adds an entry that upstream has shown, as if it were new.
func (s *Sizes) found(namespace string, bytes int) {
	s.change(namespace, func(sp *size) {
		sp.bytes += int64(bytes)
		sp.since += int64(bytes)
		s.overstate(namespace)
	})
}

// loosen notes that what is known of a namespace has changed otherwise than by a write of this host.
func (s *Sizes) loosen(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loose[namespace] = true
}

// isLoose reports whether a namespace must be counted again. The caller holds mu.
func (s *Sizes) isLoose(namespace string) bool {
	_, loose := s.loose[namespace]
	return loose
}

// begin begins to count a namespace. It returns a snapshot that holds all earlier changes, and no later
// one.
func (s *Sizes) begin(namespace string) (snapshot *pebble.Snapshot, err error) {
	err = s.copies.store.Later(func(tx *store.Tx) error {
		if _, err := tx.Reader(); err != nil { // applies the gathered changes
			return err
		}
		snapshot = s.copies.store.Snapshot()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.loose, namespace)
		if sp := s.spaces[namespace]; sp != nil {
			sp.since = 0
		}
		return nil
	})
	return snapshot, err
}

// count counts a namespace again if its count is loose, and reports whether it did. No writer waits
// meanwhile. After damage the count stays loose, because a repair follows. The caller has acquired the
// store.
func (s *Sizes) count(ctx context.Context, namespace string) (counted bool, err error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.mu.Lock()
	loose := s.isLoose(namespace)
	s.mu.Unlock()
	if !loose {
		return false, nil
	}
	snapshot, err := s.begin(namespace)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	sum, err := sumKnown(ctx, snapshot, namespace)
	if err != nil {
		s.loosen(namespace)
		return false, ignoreDamage(err)
	}
	s.change(namespace, func(sp *size) {
		sp.bytes = sum + sp.since // guard 18.20
		if l := sp.learned; l != nil && l.loose {
			l.limit, l.loose = sp.bytes, false
		}
	})
	return true, nil
}

// countLoose counts the namespaces whose counts are loose. Without all, it leaves out those whose counts
// are at most too high and far from the limit.
func (s *Sizes) countLoose(ctx context.Context, all bool) error {
	s.mu.Lock()
	names := maps.Clone(s.loose)
	s.mu.Unlock()
	for namespace, atOnce := range names {
		if r := s.Of(namespace); !all && !atOnce && !r.holds(lookFrom, 0) {
			continue
		}
		if _, err := s.count(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// maintain counts the namespaces whose counts are loose, in a hundredth of the time. One goroutine calls
// it regularly.
func (s *Sizes) maintain(ctx context.Context) error {
	began := time.Now()
	if !s.pace.Ready(began) {
		return nil
	}
	if s.allAt.IsZero() { // Run has counted all
		s.allAt = began
	}
	all := began.Sub(s.allAt) >= countAllEvery
	if all {
		s.allAt = began
	}
	err := s.countLoose(ctx, all)
	s.pace.Took(5*time.Since(began), time.Now())
	return err
}

// fits calls admit, and once more if admit has found the namespace full by a loose count.
func (s *Sizes) fits(namespace string, admit func() error) error {
	err := admit()
	if _, full := errors.AsType[*NamespaceFullError](err); !full {
		return err
	}
	counted, countErr := s.count(context.Background(), namespace)
	if countErr != nil || !counted { // guard 18.19
		return cmp.Or(countErr, err)
	}
	return admit()
}

// sumKnown adds up the sizes of a namespace's known entries. Damaged records count for nothing.
func sumKnown(ctx context.Context, r pebble.Reader, namespace string) (sum int64, err error) {
	err = store.ScanPending(r, record.Within(record.PendingPrefix, namespace), func(_ ID, v record.Pending) error {
		sum += putSize(v.Op, int(v.ListBytes))
		return ctx.Err()
	})
	if err != nil {
		return 0, err
	}
	w, err := walk.NewKeys(r, namespace, "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for {
		if _, ok := w.Next(); !ok {
			return sum, w.Err()
		}
		if w.IsPending() {
			continue
		}
		row, _ := w.Row()
		if row.Key != "" {
			sum += int64(row.ListBytes) // guard 18.21
		} else if o, err := w.Copy(); err == nil {
			sum += int64(o.ListBytes)
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}

// prepare looks up the entry that a write replaces, if the namespace is close enough to its limit.
func (c *copies) prepare(a *appending) error {
	s := c.sizes
	a.limit = s.opts.Limit(a.Namespace)
	s.mu.Lock()
	r := s.spaces[a.Namespace].report(a.limit)
	s.mu.Unlock()
	if !r.holds(lookFrom, putSize(a.Op, a.ListBytes)) { // guard 18.18
		return nil
	}
	if c.pending.isPending(a.ID) { // its size is known
		return nil
	}
	return c.look(a)
}

// look finds the size of the entry that the write replaces. It takes the listing's row, or else the
// settled copy.
func (c *copies) look(a *appending) error {
	a.looked = true
	row, listed, err := c.row(record.RowKey(a.Namespace, a.Key), a.Key)
	if a.base = row.ListBytes; err != nil || listed {
		return err
	}
	copied, err := c.head(a.ID)
	a.base = copied.ListBytes
	return err
}

// admitSize counts a write or refuses it. The caller is in the store's order. latest is the entry's newest pending write, if one exists.
func (c *copies) admitSize(a *appending, latest *record.Pending, exists bool) error {
	look, err := c.sizes.admit(a, latest, exists)
	if look {
		// Other writes have just filled the namespace. This is so rare that the writes queued behind
		// this one can wait for the lookup.
		if err = c.look(a); err == nil {
			_, err = c.sizes.admit(a, latest, exists)
		}
	}
	return err
}
