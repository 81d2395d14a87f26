package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// Sources supply the numbers that a scrape reads. None may be nil.
type Sources struct {
	// Status returns the daemon's state, with all namespaces. What the status knows comes from it, so that the
	// two agree.
	Status  func() *api.Status
	Journal *journal.Journal
	Cache   *cache.Cache
	Disk    func() (journal.DiskUsage, error) // an error leaves the disk's metrics out
	// Coalesced returns the number of writes that needed no request upstream.
	Coalesced func() int64
	Quotas    Quotas
}

// Quotas are the namespaces' quotas of requests upstream.
type Quotas interface {
	Spent() int64 // requests
	Saved() int64 // writes that needed no request
	Spread() int  // namespaces that spread their writes
}

// scrape holds the figures that a scrape reads once for all rows.
type scrape struct {
	from      *Sources
	status    *api.Status
	disk      journal.DiskUsage
	diskKnown bool
}

// onDisk returns a number of bytes; none if the system does not report it.
func (s *scrape) onDisk(bytes int64) float64 {
	if !s.diskKnown || bytes < 0 {
		return none
	}
	return float64(bytes)
}

func (s *scrape) watch(of func(*api.WatchState) float64) float64 {
	if s.status.Upstream.Watch == nil {
		return none
	}
	return of(s.status.Upstream.Watch)
}

// count returns the number of namespaces that fit.
func (s *scrape) count(fits func(*api.NamespaceStatus) bool) (n float64) {
	for i := range s.status.Namespaces {
		n += oneIf(fits(&s.status.Namespaces[i]))
	}
	return n
}

// lost returns the number of namespaces of which upstream has lost entries: all that are known here if the
// whole of upstream went back.
func (s *scrape) lost() float64 {
	if w := s.status.Upstream.Watch; w == nil || w.Lost == "" {
		return s.count(func(n *api.NamespaceStatus) bool { return n.DataLoss != nil })
	}
	all, err := s.from.Journal.Keys.Namespaces("", math.MaxInt, func(string) bool { return true })
	if err != nil {
		return none
	}
	return float64(len(all))
}

func (s *scrape) leastLeft() float64 {
	least := 1.0
	for i := range s.status.Namespaces {
		if q := s.status.Namespaces[i].Quota; q != nil && q.Limit > 0 {
			least = min(least, float64(q.Left)/float64(q.Limit))
		}
	}
	return least
}

// row is a metric and the function that shows its value, or its values by label.
type row struct {
	name, help string
	labels     []string // none if there is only one value
	kind       prometheus.ValueType
	read       func(s *scrape, show func(v float64, labels ...string))
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
	return prometheus.NewDesc(r.name, r.help, r.labels, nil)
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
	s := &scrape{from: &c.from, status: c.from.Status()}
	var err error
	s.disk, err = c.from.Disk()
	s.diskKnown = err == nil
	for i := range c.rows {
		r := &c.rows[i]
		desc := r.desc()
		r.read(s, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, r.kind, v, labels...)
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
