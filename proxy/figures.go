package proxy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	journal *journal.Journal
	cache   *cache.Cache
	writes  func() (sent, saved int64)
	counts  *prometheus.Registry // of the requests and nothing else
	awaited *atomic.Int64        // see metrics

	mu     sync.Mutex // guards what follows
	disk   diskDocument
	looked time.Time
}

func newFigures(opts Options, m *metrics) *figures {
	f := &figures{journal: opts.Journal, cache: opts.Cache, writes: opts.Writes, counts: prometheus.NewRegistry(), awaited: &m.awaited}
	f.counts.MustRegister(m.requests)
	return f
}

// requests counts the requests.
func (f *figures) requests(doc *figuresDocument) error {
	if f.writes != nil {
		doc.Writes.Sent, doc.Writes.Saved = f.writes()
	}
	return f.count(doc)
}

// now finds them all, but for TimeSaved.
func (f *figures) now() (doc figuresDocument, err error) {
	if err := f.requests(&doc); err != nil {
		return doc, err
	}
	doc.Cache.Bytes, doc.Cache.Budget = f.cache.Size()
	doc.Disk, err = f.onDisk()
	return doc, err
}

// labelled returns the operation of a metric, by the name of its label, and the outcome.
func labelled[Pair interface {
	GetName() string
	GetValue() string
}](labels []Pair, operationLabel string) (operation, outcome string) {
	for _, label := range labels {
		switch label.GetName() {
		case operationLabel:
			operation = label.GetValue()
		case "outcome":
			outcome = label.GetValue()
		}
	}
	return operation, outcome
}

// count takes the numbers of requests from their metrics.
func (f *figures) count(doc *figuresDocument) error {
	families, err := f.counts.Gather()
	if err != nil {
		return fmt.Errorf("figures: %w", err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			op, outcome := labelled(metric.GetLabel(), "op")
			n := int64(metric.GetCounter().GetValue())
			switch from, read := sourceLabelled(outcome); {
			case outcome == "acknowledged":
				doc.Writes.Acknowledged += n
			case op != "get" && op != "list" || !read:
			case from < fromUpstream:
				doc.Reads.Total, doc.Reads.Hits = doc.Reads.Total+n, doc.Reads.Hits+n
			default:
				doc.Reads.Total, doc.Reads.Upstream = doc.Reads.Total+n, doc.Reads.Upstream+n
			}
		}
	}
	return nil
}

// sourceLabelled is the source with a label in the metrics.
func sourceLabelled(label string) (from source, ok bool) {
	for from, names := range sourceNames {
		if names.label == label {
			return source(from), true
		}
	}
	return 0, false
}

// onDisk looks at the disk now and then.
func (f *figures) onDisk() (diskDocument, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.looked.IsZero() && time.Since(f.looked) < diskLookEvery {
		return f.disk, nil
	}
	usage, err := f.journal.Disk.Usage()
	if err != nil {
		return f.disk, fmt.Errorf("disk usage: %w", err)
	}
	f.looked = time.Now()
	f.disk = diskDocument{Journal: usage.Journal, Copies: usage.Copies}
	if usage.Free >= 0 {
		f.disk.Free = &usage.Free
	}
	return f.disk, nil
}
