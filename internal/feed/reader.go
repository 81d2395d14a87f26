package feed

// Reader follows a feed. One goroutine uses it.
type Reader[T any] struct {
	feed *Feed[T]
	wake chan struct{}

	// The feed's mutex guards the fields below.
	at     uint64 // its next record, as the feed counts those that it has taken
	seen   uint64 // number of the last record that it has read, or was told that it has missed
	sleeps bool   // it waits for wake
}

// Wake receives when there is something to read after Read has found nothing.
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

// Read fills records and returns how many it has filled. missed is how many records before
// those the reader has missed. With neither, there is nothing to read yet.
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
	if n == 0 && r.at == f.taken { // those after the last one that was taken
		last := f.last.Load()
		missed, r.seen = last-r.seen, last
	}
	r.sleeps = n == 0 && missed == 0
	return n, missed
}

// Skip leaves out everything until now, and returns the number of the last record.
func (r *Reader[T]) Skip() (last uint64) {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	r.at, r.seen = r.feed.taken, r.feed.last.Load()
	return r.seen
}

// Seen is the number of the last record that was read or missed.
func (r *Reader[T]) Seen() uint64 {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	return r.seen
}

// Close ends the reading. It may be called again.
func (r *Reader[T]) Close() { r.feed.leave(r) }
