package proxy

import (
	"fmt"
	"sync"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// diskLookEvery is how long a look at the disk counts.
const diskLookEvery = 5 * time.Second

// figures finds them.
type figures struct {
	metrics *metrics
	cache   *cache.Cache
	writes  func() (sent, saved int64)
}

// requests counts the requests.
func (f *figures) requests() (reads api.Reads, writes api.Writes) {
	for _, read := range []Verb{GetEntry, ListKeys} {
		reads.Hits += int64(f.metrics.latencies.measured(read, 0, Outcome(FromUpstream)).total)
		reads.Upstream += int64(f.metrics.latencies.measured(read, Outcome(FromUpstream), Outcome(Sources)).total)
	}
	reads.Total = reads.Hits + reads.Upstream
	writes.Acknowledged = f.metrics.acknowledged.Load()
	if f.writes != nil {
		writes.Sent, writes.Saved = f.writes()
	}
	return reads, writes
}

// now finds them all, but for TimeSaved.
func (f *figures) now() (doc api.Figures, err error) {
	doc.Reads, doc.Writes = f.requests()
	doc.Cache.Bytes, doc.Cache.Budget = f.cache.Size()
	doc.Disk, err = f.metrics.disk.now()
	return doc, err
}

// diskLook looks at the journal's disk now and then.
type diskLook struct {
	journal *journal.Journal

	mu     sync.Mutex // guards what follows
	found  api.Disk
	looked time.Time
}

func (d *diskLook) now() (api.Disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.looked.IsZero() && time.Since(d.looked) < diskLookEvery {
		return d.found, nil
	}
	usage, err := d.journal.Disk.Usage()
	if err != nil {
		return d.found, fmt.Errorf("disk usage: %w", err)
	}
	d.looked = time.Now()
	d.found = api.Disk{Journal: usage.Journal, Copies: usage.Copies}
	if usage.Free >= 0 {
		d.found.Free = &usage.Free
	}
	return d.found, nil
}
