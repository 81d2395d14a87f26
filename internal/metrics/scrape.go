package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/journal"
)

// Sources supply the numbers that a scrape reads. Only Watch may be nil.
type Sources struct {
	Journal  *journal.Journal
	Sizes    *journal.Sizes
	Cache    *cache.Cache
	Disk     func() (journal.DiskUsage, error) // an error leaves the disk's metrics out
	Identity Identity
	// Upstream returns whether upstream is up, and how many requests may be in flight there.
	Upstream func() (up bool, concurrency int)
	// Watch returns the state of the watch of upstream's changes; nil if there is no watch.
	Watch func() (caughtUp bool, entries int)
	// Coalesced returns the number of writes that needed no request upstream.
	Coalesced func() int64
	Quotas    Quotas
}

// Identity is the part of [identity.Watch] that the metrics need.
type Identity interface{ State() identity.State }

// Quotas are the namespaces' quotas of requests upstream.
type Quotas interface {
	Spent() int64                // requests
	Saved() int64                // writes that needed no request
	Short() (spread, usedUp int) // namespaces
	LeastLeft() float64          // from 0 to 1
}

// scrape holds the figures that a scrape reads once for all rows.
type scrape struct {
	from        *Sources
	journal     journal.Stats
	disk        journal.DiskUsage
	diskKnown   bool
	up          bool
	concurrency int
}

// onDisk returns a number of bytes; none if the system does not report it.
func (s *scrape) onDisk(bytes int64) float64 {
	if !s.diskKnown || bytes < 0 {
		return none
	}
	return float64(bytes)
}

func (s *scrape) watch(of func(caughtUp bool, entries int) float64) float64 {
	if s.from.Watch == nil {
		return none
	}
	return of(s.from.Watch())
}

// row is a metric and the function that shows its value, or its values by label.
type row struct {
	name, help, label string // label is empty if there is only one value
	kind              prometheus.ValueType
	read              func(s *scrape, show func(v float64, label ...string))
}

func gauge(name, help string, read func(*scrape) float64) row {
	return row{name: name, help: help, kind: prometheus.GaugeValue, read: single(read)}
}

func counter(name, help string, read func(*scrape) float64) row {
	return row{name: name, help: help, kind: prometheus.CounterValue, read: single(read)}
}

func single(read func(*scrape) float64) func(*scrape, func(float64, ...string)) {
	return func(s *scrape, show func(float64, ...string)) {
		if v := read(s); !math.IsNaN(v) {
			show(v)
		}
	}
}

func (r *row) desc() *prometheus.Desc {
	if r.label == "" {
		return prometheus.NewDesc(r.name, r.help, nil, nil)
	}
	return prometheus.NewDesc(r.name, r.help, []string{r.label}, nil)
}

type collector struct {
	from Sources
	rows []row
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.rows {
		ch <- c.rows[i].desc()
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := &scrape{from: &c.from, journal: c.from.Journal.Stats()}
	s.up, s.concurrency = c.from.Upstream()
	var err error
	s.disk, err = c.from.Disk()
	s.diskKnown = err == nil
	for i := range c.rows {
		r := &c.rows[i]
		desc := r.desc()
		r.read(s, func(v float64, label ...string) {
			ch <- prometheus.MustNewConstMetric(desc, r.kind, v, label...)
		})
	}
}

// registry makes and registers counters and histograms.
type registry struct{ promauto.Factory }

func (r registry) counter(name, help string) prometheus.Counter {
	return r.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (r registry) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return r.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}
