package proxy

import (
	"fmt"
	"sync"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// figuresDocument says what the daemon has done since its start, and what it holds.
type figuresDocument struct {
	Reads  readsDocument  `json:"reads"`
	Writes writesDocument `json:"writes"`
	// TimeSaved is an estimate; null until a round trip to upstream was measured.
	TimeSaved *float64      `json:"time_saved_seconds"`
	Disk      diskDocument  `json:"disk"`
	Cache     cacheDocument `json:"cache"`
}

type readsDocument struct {
	Total    int64 `json:"total"`    // GET and LIST that were answered
	Hits     int64 `json:"hits"`     // of them, those for which nobody waited for upstream
	Upstream int64 `json:"upstream"` // and the others
}

type writesDocument struct {
	Acknowledged int64 `json:"acknowledged"`
	Sent         int64 `json:"sent"`  // requests upstream that write
	Saved        int64 `json:"saved"` // writes that needed none, as a newer one took their place
}

type diskDocument struct {
	Journal int64  `json:"journal_bytes"` // without the copies
	Copies  int64  `json:"copies_bytes"`
	Free    *int64 `json:"free_bytes"` // null if the system does not tell
}

type cacheDocument struct {
	Bytes  int64 `json:"bytes"`
	Budget int64 `json:"budget"`
}

// diskLookEvery is how long a look at the disk counts.
const diskLookEvery = 5 * time.Second

// figures finds them.
type figures struct {
	metrics *metrics
	cache   *cache.Cache
	writes  func() (sent, saved int64)
}

// requests counts the requests.
func (f *figures) requests() (reads readsDocument, writes writesDocument) {
	for _, read := range []verb{getEntry, listKeys} {
		reads.Hits += int64(f.metrics.latencies.measured(read, 0, outcome(fromUpstream)).total)
		reads.Upstream += int64(f.metrics.latencies.measured(read, outcome(fromUpstream), outcome(sources)).total)
	}
	reads.Total = reads.Hits + reads.Upstream
	writes.Acknowledged = f.metrics.acknowledged.Load()
	if f.writes != nil {
		writes.Sent, writes.Saved = f.writes()
	}
	return reads, writes
}

// now finds them all, but for TimeSaved.
func (f *figures) now() (doc figuresDocument, err error) {
	doc.Reads, doc.Writes = f.requests()
	doc.Cache.Bytes, doc.Cache.Budget = f.cache.Size()
	doc.Disk, err = f.metrics.disk.now()
	return doc, err
}

// diskLook looks at the journal's disk now and then.
type diskLook struct {
	journal *journal.Journal

	mu     sync.Mutex // guards what follows
	found  diskDocument
	looked time.Time
}

func (d *diskLook) now() (diskDocument, error) {
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
	d.found = diskDocument{Journal: usage.Journal, Copies: usage.Copies}
	if usage.Free >= 0 {
		d.found.Free = &usage.Free
	}
	return d.found, nil
}
