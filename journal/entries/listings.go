package entries

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/internal/walk"
)

// Listings reads the settled listings of namespaces. Its methods may be called concurrently.
type Listings struct {
	entries *Entries

	mu    sync.Mutex
	bytes map[string]int64 // what the last listing of each namespace adds up to; none is 0
}

// Bytes calls yield for each namespace with what its last listing adds up to, as upstream counts it. After a start, that
// is what the kept rows add up to. yield must be quick, and must not call the journal.
func (l *Listings) Bytes(yield func(namespace string, bytes int64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for namespace, bytes := range l.bytes {
		yield(namespace, bytes)
	}
}

// BytesOf returns that of one namespace; 0 if none is known.
func (l *Listings) BytesOf(namespace string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes[namespace]
}

// adds notes what upstream's rows of a namespace add up to.
func (l *Listings) adds(namespace string, rows []Row) {
	sum := int64(0)
	for _, r := range rows {
		sum += int64(r.ListBytes)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes[namespace] = sum; sum == 0 {
		delete(l.bytes, namespace)
	}
}

// SumListings adds up the kept rows of the namespaces of which upstream has sent no listing since the start. Damage ends it early.
func (e *Entries) SumListings(ctx context.Context) (err error) {
	l := e.Listings
	sums := make(map[string]int64)
	snapshot := e.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	prefix := []byte(record.RowPrefix)
	err = store.ScanPrefix(snapshot, prefix, func(key, body []byte, _ uint32) error {
		namespace, k, ok := strings.Cut(string(key[len(prefix):]), "/")
		if row, err := record.DecodeRow(k, body); ok && err == nil {
			sums[namespace] += int64(row.ListBytes)
		}
		return ctx.Err()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for namespace, bytes := range sums {
		if _, listed := l.bytes[namespace]; !listed {
			l.bytes[namespace] = bytes
		}
	}
	return store.IgnoreDamage(err)
}

// Head returns the listing of a namespace without its rows; ok is false if there is none.
func (l *Listings) Head(namespace string) (head Listing, ok bool, err error) {
	head, _, ok, err = l.Shows(ID{Namespace: namespace})
	return head, ok, err
}

// Shows returns the listing of an entry's namespace without its rows, and reports whether the listing
// has a row for the entry. ok is false if there is no listing.
func (l *Listings) Shows(id ID) (head Listing, shows, ok bool, err error) {
	if err := l.entries.store.Acquire(); err != nil {
		return Listing{}, false, false, err
	}
	defer l.entries.store.Release()
	listing := ID{Namespace: id.Namespace}
	snapshot := l.entries.snapshot(listing)
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	h, shows, ok, err := readListed(l.entries, snapshot, id)
	if err != nil || !ok {
		return Listing{}, false, false, err
	}
	confirmed := h.FetchedAt
	if confirmed != 0 {
		confirmed = max(confirmed, l.entries.seen.get(listing).confirmedAt)
	}
	return Listing{FetchedAt: store.Time(confirmed), Complete: h.Complete}, shows, true, nil
}

// Lacks returns the keys of a namespace's listing whose settled copy is missing or differs from the
// listing. It skips entries with a pending write. The call does not count as a use of the copies.
func (l *Listings) Lacks(namespace string) (keys []string, err error) {
	_, err = l.entries.walk(namespace, "", func(w *walk.Keys, key string) (bool, error) {
		if w.IsPending() {
			return true, nil
		}
		row, err := w.Row()
		damaged, err := l.entries.giveUp(err)
		if err != nil || damaged || row.Key == "" {
			return true, err
		}
		o, err := w.Copy()
		if damaged, err = l.entries.giveUp(err); err != nil {
			return false, err
		}
		if damaged || o == (Observation{}) || !shows(&o, row) {
			keys = append(keys, key)
		}
		return true, nil
	})
	return keys, err
}

// shows reports whether a settled copy matches its row: both have the same size, and come from the same
// write of this journal or have the same time.
func shows(o *Observation, row Row) bool {
	sameWrite := row.Origin.Seq != 0 && row.Origin.Seq == o.Origin.Seq
	sameTime := o.UpdatedAt == row.UpdatedAt || o.UpdatedAt == row.Origin.At || row.Origin.At != 0 && row.Origin.At == o.Origin.At
	return row.ListBytes == o.ListBytes && (sameWrite || sameTime)
}
