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
	// nearFull is the percentage of its limit at which a namespace counts as nearly full, and
	// nearFullNoMore the one below which it no longer does. Between the two, the log does not
	// repeat itself.
	nearFull       = 80
	nearFullNoMore = 75
	// logAgain is how long the log stays silent about a namespace whose size goes up and down.
	logAgain = time.Minute
	// learnedFor is how long upstream's word that a namespace is full counts.
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

// Sizes estimates how much each namespace will hold upstream once everything pending is flushed.
// The journal refuses a write that makes a namespace larger than its limit. Sizes counts what a
// listing shows as the size of a value: characters up to the first NUL. Names do not count.
//
// The count is approximate, so that a write needs no look at the disk:
//
//   - A pending put counts as new until it settles. Once a second, [Journal.Maintain] looks at
//     namespaces that seem nearly full, and subtracts what their pending writes replace.
//   - A write that settles, an answer of upstream and a listing add the difference to what was
//     known of the entry. A complete listing replaces the count.
//   - An entry whose copy is removed for want of room still counts, as "uncopied". What upstream
//     shows of an unknown entry, or a delete of it, is taken from the uncopied bytes as long as
//     there are any; a put counts as new. Otherwise, copies that new entries push out would make
//     room for more entries, and the namespace would never reach its limit.
//
// Before the journal refuses a put, it looks up the entry: it takes a put that makes the namespace
// no larger.
//
// The count is in memory only. [Journal.Run] builds it from the disk; until then, only writes since
// the start count. A nil *Sizes counts nothing and has no limit. The methods may be called
// concurrently.
type Sizes struct {
	opts SizesOptions

	// mu guards the fields below. It is the innermost lock; its holders work in memory only.
	mu     sync.Mutex
	spaces map[string]*size
	near   map[string]*size // of the spaces, those that seem nearly full or did so lately

	// measuring is held while a namespace is measured. A caller for whose namespace another one
	// measures waits for the outcome.
	measuring sync.Mutex
}

// size is the estimate for one namespace.
type size struct {
	settled  int64 // what upstream is taken to hold
	pending  int64 // the newest pending puts
	replaced int64 // of settled, what was taken off for pending writes
	uncopied int64 // of settled, about the entries without a copy
	largest  int64 // no entry that was settled here is larger

	waiting    int  // entries with a pending write
	unmeasured bool // some of them may not be measured
	refused    bool // a write, since the last look
	learned    *learnedLimit
	logged     level
	loggedAt   time.Time
}

// learnedLimit is the limit that an upstream refusal has shown.
type learnedLimit struct {
	limit int64
	at    time.Time
	rough bool // pending writes were not measured then
}

// level is how full a namespace is according to the log.
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
	// LearnedUntil is not zero if Limit is not the setting's: upstream has refused a write when the
	// namespace held about Limit, and the journal goes by that until then.
	LearnedUntil time.Time
}

// Of returns the size of a namespace.
func (s *Sizes) Of(namespace string) NamespaceSize {
	if s == nil {
		return NamespaceSize{}
	}
	limit := s.opts.Limit(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spaces[namespace].report(limit)
}

// NearlyFull returns, by name, the namespaces that hold 80 % of their limit and more.
func (s *Sizes) NearlyFull() map[string]NamespaceSize {
	all := make(map[string]NamespaceSize)
	for _, namespace := range s.nearOnes() {
		if r := s.Of(namespace); r.isNear(nearFull) {
			all[namespace] = r
		}
	}
	return all
}

func (s *Sizes) nearOnes() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.near))
}

// Learn notes that upstream has refused a write because the namespace is full. The present size
// becomes the limit, for an hour, or until upstream takes a write that makes the namespace larger,
// or an unknown entry is deleted.
func (s *Sizes) Learn(namespace string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(namespace)
	sp.learned = &learnedLimit{sp.bytes(), time.Now(), sp.unmeasured} // guard 18.22
	sp.refused = true
	s.near[namespace] = sp
}

// Changed compares all namespaces with the limits at once; without it, a namespace is compared when
// it next changes.
func (s *Sizes) Changed() {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.spaces))
	s.mu.Unlock()
	for _, namespace := range names {
		limit := s.opts.Limit(namespace)
		s.mu.Lock()
		s.note(namespace, s.of(namespace), limit)
		s.mu.Unlock()
	}
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
			"it holds about %d now, and this write adds %d. Delete entries, or write shorter values. botwired tries again at %s, and as soon as upstream takes more",
			e.Namespace, e.Limit, e.Bytes, e.Grows, e.LearnedUntil.UTC().Format("15:04 UTC"))
	}
	return fmt.Sprintf("namespace %s is full: it holds about %d bytes, this write adds %d, and quota.namespace_bytes allows %d. "+
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

// bytes returns the count, or 0 if it is negative, as it may be until the disk has been counted.
func (sp *size) bytes() int64 {
	if sp == nil {
		return 0
	}
	return max(0, sp.settled+sp.pending-sp.replaced)
}

// report returns the size and its limit; limit is the setting's, 0 for none. The caller holds mu.
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

// note has the next look judge a namespace that seems nearly full. It forgets one that holds
// nothing. The caller holds mu.
func (s *Sizes) note(namespace string, sp *size, limit int64) {
	if r := sp.report(limit); sp.refused || r.isNear(nearFullNoMore) {
		s.near[namespace] = sp
	} else if sp.settled == 0 && sp.waiting == 0 && sp.learned == nil && sp.logged == notFull {
		delete(s.spaces, namespace)
		delete(s.near, namespace)
	}
}

// sizing holds what the admission of a write needs to know of sizes.
type sizing struct {
	limit    int64
	anySize  bool // a person or upstream has decided: the journal takes the write at any size
	trial    bool // it is only asked whether the write would be taken
	looked   bool // the write would have crossed the limit, if its entry were new
	base     base // what is known of the entry's size
	takenOff base // off the count, for this write
}

// base is an entry's size without its pending write.
type base struct {
	bytes int64
	known bool
}

// putSize returns what a write adds to the size of its namespace.
func putSize(op Op, listBytes int) int64 {
	if op == Put {
		return int64(listBytes)
	}
	return 0
}

// prepare looks up the entry of a write that the journal would refuse if the entry were new.
func (c *copies) prepare(a *appending) (err error) {
	s := c.sizes
	if s == nil {
		return nil
	}
	a.limit = s.opts.Limit(a.Namespace)
	if a.anySize || a.Op != Put {
		return nil
	}
	s.mu.Lock()
	r := s.spaces[a.Namespace].report(a.limit)
	s.mu.Unlock()
	if r.crossedBy(int64(a.ListBytes)) {
		// Pending writes count as new until they are measured: the write may fit.
		if err = c.measure(a.Namespace); err == nil { // guard 18.31
			err = c.look(a)
		}
	}
	return err
}

func (c *copies) look(a *appending) (err error) {
	a.looked = true
	a.base, err = c.baseOf(a.ID)
	return err
}

// admitSize counts a write, unless it is on trial, or refuses it. The caller is in the store's
// order. latest is the entry's newest pending write, if one exists.
func (c *copies) admitSize(a *appending, latest *record.Version, exists bool) error {
	taken, err := c.sizes.admit(a, latest, exists)
	if !taken && err == nil {
		// Others have filled the namespace just now. That is so seldom that those who wait for
		// their place in the order can wait for the look.
		if err = c.look(a); err == nil {
			_, err = c.sizes.admit(a, latest, exists)
		}
	}
	return err
}

func (r *NamespaceSize) crossedBy(grows int64) bool {
	return grows > 0 && r.Limited() && r.Bytes+grows > r.Limit
}

// admit does the same as admitSize, but neither takes nor refuses a write that needs a look first.
func (s *Sizes) admit(a *appending, latest *record.Version, exists bool) (taken bool, err error) {
	if s == nil {
		return true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(a.Namespace)
	now, was := putSize(a.Op, a.ListBytes), int64(0)
	switch {
	case exists:
		was = putSize(latest.Op, int(latest.ListBytes))
	case a.base.known:
		// guard 18.16
		was = a.base.bytes
	}
	r := sp.report(a.limit)
	switch {
	case !a.anySize && r.crossedBy(now-was): // guard 18.15
		if !exists && !a.looked {
			return false, nil // guard 18.17
		}
		sp.refused = r.Bytes > 0
		s.note(a.Namespace, sp, a.limit)
		return false, &NamespaceFullError{Namespace: a.Namespace, Grows: now - was, NamespaceSize: r}
	case a.trial:
	case exists:
		sp.pending += now - was
	default:
		sp.pending += now
		sp.waiting++
		sp.replaced += was
		sp.unmeasured = sp.unmeasured || !a.base.known
		a.takenOff = a.base
	}
	s.note(a.Namespace, sp, a.limit)
	return true, nil
}

// restored counts a pending write that an earlier process has left.
func (s *Sizes) restored(id ID, v *record.Version) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(id.Namespace)
	sp.pending += putSize(v.Op, int(v.ListBytes))
	sp.waiting++
	sp.unmeasured = true
}

// retired counts that an entry's last pending write has left the pending set.
func (s *Sizes) retired(e *pending.Entry, last *record.Version) {
	if s == nil {
		return
	}
	id := e.ID()
	limit := s.opts.Limit(id.Namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(id.Namespace)
	takenOff, _ := e.GiveBack()
	sp.replaced -= takenOff // guard 18.29
	sp.pending -= putSize(last.Op, int(last.ListBytes))
	if sp.waiting--; sp.waiting == 0 {
		sp.unmeasured = false
	}
	s.note(id.Namespace, sp, limit)
}

// followed counts that a write has ended behind which a newer one to its entry waits. If upstream has taken the
// write, the newer one replaces just that. If not, the next measurement finds what it replaces.
func (s *Sizes) followed(e *pending.Entry, w *Write, taken bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(w.Namespace)
	takenOff, measured := e.GiveBack()
	sp.replaced -= takenOff
	if !taken {
		sp.unmeasured = sp.unmeasured || measured
		return
	}
	now := putSize(w.Op, w.ListBytes)
	e.TakeOff(now)
	sp.replaced += now // guard 18.30
}

// resizing is a change of an entry's size upstream.
type resizing struct {
	from      base
	to        int64
	hadCopy   bool
	hasCopy   bool
	confirmed bool // by a write of this journal's, which upstream has taken
}

// resized counts what upstream holds of an entry.
func (s *Sizes) resized(namespace string, c resizing) {
	if s == nil {
		return
	}
	limit := s.opts.Limit(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(namespace)
	if hasRoom := c.to > c.from.bytes || c.to == 0 && !c.from.known; hasRoom && c.confirmed {
		sp.learned = nil
	}
	from := c.from.bytes
	switch {
	case c.from.known:
	// guard 18.28
	case c.confirmed && c.to > 0: // a new entry, for all that is known
	case c.to > 0: // it may be one that counts
		from = min(sp.uncopied, c.to)
	default:
		from = min(sp.uncopied, sp.largest)
	}
	sp.settled += c.to - from // guard 18.19
	if !c.hadCopy {
		sp.uncopied -= min(sp.uncopied, from)
	}
	if !c.hasCopy {
		sp.uncopied += c.to
	}
	sp.largest = max(sp.largest, c.to)
	s.note(namespace, sp, limit)
}

// uncopied notes that entries of so many bytes have lost their copies. The bytes still count.
func (s *Sizes) uncopied(namespace string, bytes int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(namespace)
	sp.uncopied = min(sp.uncopied+bytes, max(0, sp.settled))
}

// allUncopied notes that any copy may have gone.
func (s *Sizes) allUncopied() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spaces {
		sp.uncopied = max(0, sp.settled)
	}
}

// relisting is the difference between a listing and what was known.
type relisting struct {
	all     int64 // in all rows
	grown   int64 // by rows of entries that were known
	unknown int64 // in rows of entries that were not known
	gone    int64 // in entries that are gone upstream
}

// relisted counts a listing. A complete one replaces the count.
func (s *Sizes) relisted(namespace string, r relisting, complete bool) {
	if s == nil {
		return
	}
	limit := s.opts.Limit(namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(namespace)
	again := min(sp.uncopied, r.unknown) // these rows may be of entries that count
	sp.uncopied += r.unknown - again
	sp.settled += r.grown + r.unknown - again - r.gone
	if complete {
		sp.settled = r.all // guard 18.20
		sp.uncopied = min(sp.uncopied, r.all)
	}
	s.note(namespace, sp, limit)
}
