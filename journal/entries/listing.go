package entries

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// Listing returns the settled listing of a namespace. ok is false if there is none, or if it is
// damaged. The listing has only the newest rows: up to most by this journal's writes, and up to most by
// other writers. Cut says that rows were left out.
func (e *Entries) Listing(namespace string, most int) (l Listing, ok bool, err error) {
	if err := e.store.Acquire(); err != nil {
		return Listing{}, false, err
	}
	defer e.store.Release()
	listing := ID{Namespace: namespace}
	snapshot := e.snapshot(listing)
	newest := &newestRows{most: most}
	l, ok, _, err = e.listing(snapshot, namespace, newest.add)
	if ok {
		l.Rows, l.Cut = newest.rows(), newest.dropped
	}
	noted := e.seen.use(listing, store.UnixNow())
	if at := store.Time(noted.confirmedAt); ok && at.After(l.FetchedAt) {
		l.FetchedAt = at
	}
	return l, ok, errors.Join(err, snapshot.Close())
}

// listing reads a listing and calls take for its rows in key order. damaged says that the listing
// exists but cannot be read.
func (e *Entries) listing(r pebble.Reader, namespace string, take func(Row) error) (l Listing, ok, damaged bool, err error) {
	if l, ok, err = readListing(r, namespace, take); err != nil {
		damaged, err = e.giveUp(fmt.Errorf("listing of %s: %w", namespace, err))
		return Listing{}, false, damaged, err
	}
	return l, ok, false, nil
}

func readListing(r pebble.Reader, namespace string, take func(Row) error) (Listing, bool, error) {
	h, ok, err := readHeader(r, namespace)
	if err != nil || !ok {
		return Listing{}, false, err
	}
	l := Listing{FetchedAt: store.Time(h.FetchedAt), Complete: h.Complete, Suspect: h.Suspect.Since != 0}
	prefix := record.Within(record.RowPrefix, namespace)
	err = store.ScanPrefix(r, prefix, func(key, body []byte, _ uint32) error {
		row, err := record.DecodeRow(string(key[len(prefix):]), body)
		if err == nil {
			err = take(row)
		}
		return err
	})
	return l, err == nil, err
}

func readHeader(r pebble.Reader, namespace string) (h record.Header, ok bool, err error) {
	ok, err = store.Get(r, record.HeaderKey(namespace), func(body []byte) (err error) {
		h, err = record.DecodeHeader(body)
		return err
	})
	return h, ok, err
}

// ListingFill takes upstream's listing of a namespace into the journal. The caller begins it before it
// asks upstream: the answer may be older than writes that settle meanwhile, so Commit merges these
// writes into the answer (contract 8).
type ListingFill struct {
	entries   *Entries
	namespace string
	startedAt float64
	decided   bool // see BelieveAbsences
	believe   bool // see Believe
	distrust  bool // see Distrust
	dropped   int
	uncopied  int
	known     []knownRow // in the order in which they became known; guarded by the copies lock
	overtaken bool       // the journal took a newer listing, or forgot an entry; guarded by the copies lock
}

// BeginListing begins a fill. The caller ends it with Commit or Cancel.
func (e *Entries) BeginListing(namespace string) *ListingFill {
	f := &ListingFill{entries: e, namespace: namespace, startedAt: store.UnixNow()}
	defer e.Lock(namespace)()
	s := e.stripe(namespace)
	if s.observers == nil {
		s.observers = make(map[string][]*ListingFill)
	}
	s.observers[namespace] = append(s.observers[namespace], f)
	return f
}

// BelieveAbsences makes Commit accept upstream's listing even if it lacks many entries. A person has decided this. It ends
// the namespace's being suspect. A listing that is not complete drops nothing.
func (f *ListingFill) BelieveAbsences() { f.decided = true }

// Believe does the same, and accepts times that are older than the known ones.
func (f *ListingFill) Believe() { f.decided, f.believe = true, true }

// Distrust makes Commit keep every known entry that upstream's listing lacks, because upstream has lost
// writes that it had confirmed. If there is such an entry, the namespace becomes suspect.
func (f *ListingFill) Distrust() { f.distrust = true }

// Dropped returns how many settled copies Commit has removed.
func (f *ListingFill) Dropped() int { return f.dropped }

// Uncopied returns how many of the entries that Commit has removed had no copy. Nobody can restore these. It counts them
// only if a person has decided: see BelieveAbsences.
func (f *ListingFill) Uncopied() int { return f.uncopied }

// Cancel ends the fill without an answer.
func (f *ListingFill) Cancel() {
	defer f.entries.Lock(f.namespace)()
	f.leave()
}

// leave stops observing the namespace. It may be called twice. The caller holds the copies lock.
func (f *ListingFill) leave() {
	s := f.entries.stripe(f.namespace)
	rest := slices.DeleteFunc(s.observers[f.namespace], func(o *ListingFill) bool { return o == f })
	if len(rest) == 0 {
		delete(s.observers, f.namespace)
		return
	}
	s.observers[f.namespace] = rest
}

// Commit stores upstream's rows as the settled listing of the namespace, merged with the writes that
// have settled since the fill began. complete says that upstream had no more keys. Commit's changes are
// durable when it returns, and readers do not see them before. If a listing changes nothing, Commit
// notes it in memory only.
//
// Errors: [queue.ErrChanged] if, since this fill began, the journal took another listing of the namespace,
// which may be newer, or removed an entry's row because it is unclear what upstream holds (contract 7); or if a write to an
// entry that the listing lacks waits for its sync (contract 8).
func (f *ListingFill) Commit(rows []Row, complete bool) error {
	if err := f.entries.store.Acquire(); err != nil {
		return err
	}
	defer f.entries.store.Release()
	unlock := f.entries.Lock(f.namespace)
	defer unlock()
	f.leave()
	if f.overtaken { // guard 7.12
		return fmt.Errorf("listing of %s: %w", f.namespace, queue.ErrChanged)
	}
	c := &listed{Entries: f.entries, fill: f, unlock: unlock, held: make(map[string]bool)}
	err := c.prepare(rows, complete)
	f.dropped = len(c.absent)
	if err == nil {
		err = c.dropMost()
	}
	if err == nil {
		err = f.entries.store.Update(c)
		c.Reveal()
	}
	if err == nil {
		c.tell()
		f.entries.Listings.adds(f.namespace, rows)
		err = f.entries.boundLosses()
	}
	if err != nil {
		return fmt.Errorf("listing of %s: %w", f.namespace, err)
	}
	return nil
}

// bringForward merges the rows that became known meanwhile into upstream's rows. A write that settled
// meanwhile counts as newer than all of upstream's rows.
func (f *ListingFill) bringForward(rows []Row) (now map[string]Row) {
	now = make(map[string]Row, len(rows))
	newest := 0.0
	for _, r := range rows {
		now[r.Key] = r
		newest = max(newest, r.UpdatedAt)
	}
	for _, k := range f.known { // guard 8.3
		if k.gone {
			delete(now, k.Key)
			continue
		}
		k.UpdatedAt = max(k.UpdatedAt, now[k.Key].UpdatedAt)
		if listed, ok := now[k.Key]; ok && !k.arrived && listed.Origin.NewerThan(k.Origin.At) && k.Origin.At != 0 { // guard 7.27
			continue
		}
		if k.arrived {
			k.UpdatedAt = max(k.UpdatedAt, newest+store.Tick)
		} else {
			newest = max(newest, k.UpdatedAt)
		}
		now[k.Key] = k.Row
	}
	return now
}

// readListed returns the header of a namespace's listing, and reports whether the listing has a row for
// the entry. Without a readable header, ok is false and the header is zero. A damaged row counts as a
// row.
func readListed(c *Entries, r pebble.Reader, id ID) (h record.Header, listed, ok bool, err error) {
	h, ok, err = readHeader(r, id.Namespace)
	if damaged, err := c.giveUp(err); damaged || err != nil || !ok {
		return record.Header{}, false, false, err
	}
	listed, err = store.Get(r, record.RowKey(id.Namespace, id.Key), func([]byte) error { return nil })
	if damaged, err := c.giveUp(err); damaged || err != nil {
		return h, damaged, true, err
	}
	return h, listed, true, nil
}

// newestRows keeps the newest of the rows passed to add, in bounded memory. Of two writes by this
// journal, the one with the higher sequence number is newer; their times do not count. Of two rows by
// other writers, the one with the later time is newer.
type newestRows struct {
	most        int // the limit for own and for others
	own, others []Row
	floor       float64 // the latest time among the dropped own rows
	dropped     bool
}

func (n *newestRows) add(r Row) error {
	if r.Origin.Seq == 0 {
		n.others = n.cut(append(n.others, r), 2*n.most)
	} else {
		n.own = n.cut(append(n.own, r), 2*n.most)
	}
	return nil
}

// cut keeps the newest most rows if there are more than limit.
func (n *newestRows) cut(rows []Row, limit int) []Row {
	if len(rows) <= limit {
		return rows
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Origin.Seq, a.Origin.Seq), cmp.Compare(b.UpdatedAt, a.UpdatedAt))
	})
	for _, r := range rows[n.most:] {
		if n.dropped = true; r.Origin.Seq != 0 {
			n.floor = max(n.floor, r.UpdatedAt)
		}
	}
	return rows[:n.most]
}

// rows returns the newest rows in key order. It gives an own row at least the time of the own rows that
// were dropped before it.
func (n *newestRows) rows() []Row {
	n.own, n.others = n.cut(n.own, n.most), n.cut(n.others, n.most)
	for i := range n.own {
		n.own[i].UpdatedAt = max(n.own[i].UpdatedAt, n.floor) // guard 10.18
	}
	all := slices.Concat(n.own, n.others)
	slices.SortFunc(all, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
	return all
}
