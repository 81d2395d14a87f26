// Package feed hands records to the readers that follow them, such as open dashboard pages.
//
// A writer never waits for a reader: a ring holds the last records, and each reader reads them at its own
// pace. A reader that is too slow, or comes back too late, misses records, and learns how many. While nobody
// reads, a record costs one atomic load.
package feed

import (
	"errors"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// ErrTooMany refuses a reader beyond Options.Readers.
var ErrTooMany = errors.New("too many readers")

// Options configures a feed.
type Options struct {
	// Size is the number of records that the feed keeps.
	Size int
	// Readers is the maximum number of readers at a time.
	Readers int
	// Keeps is how long the feed still takes records after its last reader has left: the reader may come
	// back.
	Keeps time.Duration
	// Burst, if not 0, bounds the records that the feed takes between two reads of any reader. The feed
	// only counts further ones, with two atomic additions and no lock.
	Burst int64
}

// Record is one record of a feed. Numbers begin at 1.
type Record[T any] struct {
	Number uint64
	Value  T
}

// Feed keeps the last records for its readers. Its methods may be called concurrently.
type Feed[T any] struct {
	opts   Options
	wanted atomic.Bool   // somebody reads, or has just left
	last   atomic.Uint64 // number of the last record, including those that were only counted
	burst  atomic.Int64  // records that may still be taken

	mu      sync.Mutex // innermost; guards the fields below
	ring    []Record[T]
	taken   uint64 // number of records ever put into the ring
	kept    uint64 // index of the oldest record that readers may still get
	readers map[*Reader[T]]struct{}
	closing *time.Timer // stops the recording; nil if no stop is due
}

// New returns a feed without readers.
func New[T any](opts Options) *Feed[T] {
	return &Feed[T]{opts: opts, readers: make(map[*Reader[T]]struct{})}
}

// Wanted reports whether Add would take a record. It costs one atomic load: a writer whose records are
// expensive to make asks first.
func (f *Feed[T]) Wanted() bool { return f.wanted.Load() }

// Add takes a record if it is wanted.
func (f *Feed[T]) Add(v T) {
	if !f.wanted.Load() {
		return
	}
	if f.opts.Burst > 0 && f.burst.Add(-1) < 0 { // guard 16.44
		f.last.Add(1)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ring == nil {
		return // the last reader has left meanwhile
	}
	f.ring[f.taken%uint64(len(f.ring))] = Record[T]{f.last.Add(1), v}
	f.taken++
	f.kept = max(f.kept, f.taken-min(f.taken, uint64(len(f.ring))))
	for r := range f.readers {
		r.rouse()
	}
}

// Follow returns a reader of all later records.
func (f *Feed[T]) Follow() (*Reader[T], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.follow(f.taken, f.last.Load())
}

// Resume returns a reader of the records after a number. If some of them are gone, ok is false and the reader
// starts with later records.
func (f *Feed[T]) Resume(after uint64) (r *Reader[T], ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, seen := f.taken, f.last.Load()
	if f.ring != nil {
		held := int(f.taken - f.kept)
		next := f.kept + uint64(sort.Search(held, func(i int) bool { return f.at(f.kept+uint64(i)).Number > after }))
		if ok = next < f.taken && f.at(next).Number == after+1 || next == f.taken && after == seen; ok {
			at, seen = next, after
		}
	}
	r, err = f.follow(at, seen)
	return r, ok, err
}

// follow adds a reader. The caller holds mu.
func (f *Feed[T]) follow(at, seen uint64) (*Reader[T], error) {
	if len(f.readers) >= f.opts.Readers { // guard 16.45
		return nil, ErrTooMany
	}
	if f.closing != nil {
		f.closing.Stop()
		f.closing = nil
	}
	if f.ring == nil {
		f.ring = make([]Record[T], f.opts.Size)
	}
	r := &Reader[T]{feed: f, at: at, seen: seen, wake: make(chan struct{}, 1)}
	f.readers[r] = struct{}{}
	f.burst.Store(f.opts.Burst)
	f.wanted.Store(true)
	return r, nil
}

// leave removes a reader.
func (f *Feed[T]) leave(r *Reader[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.readers[r]; !ok {
		return
	}
	if delete(f.readers, r); len(f.readers) > 0 {
		return
	}
	if f.opts.Keeps == 0 {
		f.stop()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(f.opts.Keeps, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.closing == timer { // else somebody has come back meanwhile
			f.stop()
		}
	})
	f.closing = timer
}

// stop ends the recording. Records get no number until the next reader comes, so stop skips one number:
// a reader that resumes from an earlier number learns that it missed something. The caller holds mu.
func (f *Feed[T]) stop() {
	f.wanted.Store(false)
	f.closing, f.ring, f.kept = nil, nil, f.taken
	f.last.Add(1) // guard 13.33
}

// at returns the slot of record i of the ring. The caller holds mu.
func (f *Feed[T]) at(i uint64) *Record[T] { return &f.ring[i%uint64(len(f.ring))] }

// Reader follows a feed. One goroutine uses it.
type Reader[T any] struct {
	feed *Feed[T]
	wake chan struct{}

	// The feed's mutex guards the fields below.
	at     uint64 // index of its next record, as feed.taken counts
	seen   uint64 // number of the last record that it has read or was told to have missed
	sleeps bool   // it waits on wake
}

// Wake returns a channel that receives once there is something to read again, after Read found nothing.
func (r *Reader[T]) Wake() <-chan struct{} { return r.wake }

// rouse wakes the reader. The caller holds the feed's mutex.
func (r *Reader[T]) rouse() {
	if !r.sleeps {
		return
	}
	r.sleeps = false
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Read fills records and returns how many it filled. missed counts the records that the reader missed before
// them. If both are 0, there is nothing to read yet.
func (r *Reader[T]) Read(records []Record[T]) (n int, missed uint64) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	f.burst.Store(f.opts.Burst)
	if f.ring == nil {
		return 0, 0 // the reader is closed
	}
	r.at = max(r.at, f.kept)
	for ; r.at < f.taken && n < len(records); n++ {
		next := f.at(r.at)
		if gap := next.Number - r.seen - 1; gap > 0 {
			if n > 0 {
				break
			}
			missed = gap
		}
		records[n] = *next
		r.seen = next.Number
		r.at++
	}
	if n == 0 && r.at == f.taken { // the records that were only counted after the last one in the ring
		last := f.last.Load()
		missed, r.seen = last-r.seen, last
	}
	r.sleeps = n == 0 && missed == 0
	return n, missed
}

// Skip skips all records until now, and returns the number of the last one.
func (r *Reader[T]) Skip() (last uint64) {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	r.at, r.seen = r.feed.taken, r.feed.last.Load()
	return r.seen
}

// Seen returns the number of the last record that was read or missed.
func (r *Reader[T]) Seen() uint64 {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	return r.seen
}

// Close removes the reader from the feed. It may be called again.
func (r *Reader[T]) Close() { r.feed.leave(r) }
