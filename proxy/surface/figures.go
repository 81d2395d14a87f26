package surface

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

const diskLookEvery = 5 * time.Second

type figures struct {
	measures *Measures
	disk     *diskLook
	cache    *cache.Cache
	writes   func() (sent, saved int64)
}

func (f *figures) requests() (reads api.Reads, writes api.Writes) {
	for _, read := range []memory.Verb{memory.GetEntry, memory.ListKeys} {
		reads.Hits += f.measures.count(read, 0, memory.Outcome(memory.FromUpstream))
		reads.Upstream += f.measures.count(read, memory.Outcome(memory.FromUpstream), memory.Outcome(memory.Sources))
	}
	reads.Total = reads.Hits + reads.Upstream
	writes.Acknowledged = f.measures.writes(memory.WasAcknowledged, memory.WasThrough+1) + f.measures.imported.Load()
	if f.writes != nil {
		writes.Sent, writes.Saved = f.writes()
	}
	return reads, writes
}

func (f *figures) now() (doc api.Figures, err error) {
	doc.Reads, doc.Writes = f.requests()
	doc.Cache.Bytes, doc.Cache.Budget = f.cache.Size()
	disk, err := f.disk.now()
	doc.Disk = api.Disk{Journal: disk.Journal, Copies: disk.Copies}
	if disk.Free >= 0 {
		doc.Disk.Free = &disk.Free
	}
	return doc, err
}

type diskLook struct {
	journal *journal.Journal

	mu     sync.Mutex // guards the fields below
	found  journal.DiskUsage
	looked time.Time
}

func (d *diskLook) now() (journal.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.looked.IsZero() && time.Since(d.looked) < diskLookEvery {
		return d.found, nil
	}
	found, err := d.journal.Disk.Usage()
	if err != nil {
		return d.found, fmt.Errorf("disk usage: %w", err)
	}
	d.found, d.looked = found, time.Now()
	return found, nil
}

// DiskUsage returns the journal's disk usage. It may be a few seconds old.
func (s *Surface) DiskUsage() (journal.DiskUsage, error) { return s.figures.disk.now() }

// Measures counts and times the requests of the memory API.
type Measures struct {
	times    *metrics.Times
	series   [memory.Verbs][memory.Outcomes]atomic.Pointer[metrics.Series] // the series of times that were needed so far
	imported atomic.Int64                                                  // imported writes, which are not requests of their own
}

// Observe records how long a call took. A call without a verb is not for the memory API.
func (m *Measures) Observe(v memory.Verb, o memory.Outcome, took time.Duration) {
	if v == memory.NoVerb {
		return
	}
	at := &m.series[v][o]
	series := at.Load()
	if series == nil {
		series = m.times.Of(v.String(), o.String())
		at.Store(series)
	}
	series.Observe(took)
}

func (m *Measures) measured(v memory.Verb, first, end memory.Outcome, each func(*metrics.Series)) {
	for o := first; o < end; o++ {
		if series := m.series[v][o].Load(); series != nil {
			each(series)
		}
	}
}

// count returns the number of a verb's requests with outcomes from first up to, but not including, end.
func (m *Measures) count(v memory.Verb, first, end memory.Outcome) (n int64) {
	m.measured(v, first, end, func(s *metrics.Series) { n += s.Count() })
	return n
}

func (m *Measures) writes(first, end memory.Outcome) int64 {
	return m.count(memory.PutEntry, first, end) + m.count(memory.DeleteEntry, first, end)
}
