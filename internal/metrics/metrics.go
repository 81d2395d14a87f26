// Package metrics defines botwired's metrics for Prometheus. Each metric is one row of this file: its
// name, help, labels and source. The daemon's parts count into the fields of [Metrics]. Each scrape
// reads the other numbers from [Sources].
//
// No label has values that callers choose. docs/metrics.md has a line for each metric.
package metrics

import (
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/botwired/botwired/api"
)

// Metrics are the metrics of one daemon. They are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	Requests         *Times // of agents
	UpstreamRequests *Times

	Forwarded, Failed            prometheus.Counter // requests
	Flushes                      *prometheus.CounterVec
	Fences                       *prometheus.CounterVec
	FenceReads                   prometheus.Counter
	OwnVersions, ForeignVersions prometheus.Counter // versions that the watch has seen
	WatchFetches                 prometheus.Counter
}

// Build names the running program.
type Build struct{ Version, Go, Platform, Revision string }

// New returns the metrics of a daemon that starts now.
func New(b Build) *Metrics {
	all, started := prometheus.NewRegistry(), time.Now()
	r := registry{promauto.With(all)}
	all.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "botwired_build_info", Help: "1, for the build that runs.",
		ConstLabels: prometheus.Labels{"version": b.Version, "goversion": b.Go, "platform": b.Platform, "revision": b.Revision},
	}, func() float64 { return 1 })
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "botwired_uptime_seconds", Help: "How long ago the daemon started.",
	}, func() float64 { return time.Since(started).Seconds() })

	versions := r.counters("botwired_watch_events_total", "Versions of entries that the watch has told of since the start, by writer: this host's own, or another's.", "writer")
	return &Metrics{
		registry: all,

		Requests:         newTimes(r, "botwired_request_seconds", "How long agents waited for the answers of the memory API, by operation and outcome."),
		UpstreamRequests: newTimes(r, "botwired_upstream_request_seconds", "How long requests upstream took, by operation and outcome."),

		Forwarded:       r.counter("botwired_forwarded_requests_total", "Requests that are not the memory API's, passed on to upstream."),
		Failed:          r.counter("botwired_failed_requests_total", "Requests answered with 500, of the memory API or not: the log has a line for each."),
		Flushes:         r.counters("botwired_flushes_total", "Writes sent upstream, by operation and outcome.", "operation", "outcome"),
		Fences:          r.counters("botwired_fences_total", "Comparisons of an entry upstream before a write overwrites it, by outcome.", "outcome"),
		FenceReads:      r.counter("botwired_fence_reads_total", "Reads of upstream that the comparisons have made."),
		OwnVersions:     versions.WithLabelValues("own"),
		ForeignVersions: versions.WithLabelValues("foreign"),
		WatchFetches:    r.counter("botwired_watch_fetches_total", "Entries that were fetched since the start because another host had changed them."),
	}
}

// Read makes each scrape read its numbers from s. Call it at most once.
func (m *Metrics) Read(s Sources) { m.registry.MustRegister(&collector{s, rows()}) }

// Handler serves the metrics to scrapers.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func rows() []row {
	return []row{
		gauge("botwired_pending", "Writes acknowledged and not yet confirmed by upstream.",
			func(s *scrape) float64 { return float64(s.status.Pending) }),
		gauge("botwired_pending_bytes", "Size of the pending writes, as journal.max_bytes counts them.",
			func(s *scrape) float64 { return float64(s.status.PendingBytes) }),
		gauge("botwired_oldest_pending_seconds", "How long the oldest pending write has been waiting.",
			func(s *scrape) float64 { return s.status.OldestPendingSeconds }),
		gauge("botwired_dead_letters", "Dead letters that are kept.",
			func(s *scrape) float64 { return float64(s.status.DeadLetters) }),
		gauge("botwired_open_dead_letters", "Dead letters that wait for a person to decide: upstream has refused them, and no later write has superseded them.",
			func(s *scrape) float64 { return float64(s.status.OpenDeadLetters) }),
		gauge("botwired_conflicts", "States in the history that have lost a conflict between two hosts.",
			func(s *scrape) float64 { return float64(s.status.Conflicts) }),
		gauge("botwired_receipts", "Receipts of writes that have settled, were superseded or are dead.",
			func(s *scrape) float64 { return float64(s.from.Journal.Stats().Receipts) }),
		gauge("botwired_damaged_files", "Files of the journal that were found damaged since the start. The next start mends them.",
			func(s *scrape) float64 { return float64(s.status.DamagedFiles) }),
		gauge("botwired_journal_refuses_writes", "1 while the journal takes no writes, for want of room or because it has failed, else 0.",
			func(s *scrape) float64 { return oneIf(s.status.Journal.RefusesWrites) }),
		gauge("botwired_journal_bytes", "Size of the journal on the disk, without the settled copies and the history.",
			func(s *scrape) float64 { return s.onDisk(s.disk.Journal) }),
		gauge("botwired_copies_bytes", "Size of the settled copies, the listings and the history on the disk.",
			func(s *scrape) float64 { return s.onDisk(s.disk.Copies) }),
		gauge("botwired_disk_free_bytes", "Free space on the journal's disk, for the daemon's user.",
			func(s *scrape) float64 { return s.onDisk(s.disk.Free) }),
		gauge("botwired_data_loss_namespaces", "Namespaces of which upstream no longer holds many of the entries that it has confirmed: a person has to decide.",
			(*scrape).lost),
		counter("botwired_older_answers_total", "Answers of upstream since the start that showed an older state than was known, and did not count.",
			func(s *scrape) (sum float64) {
				for i := range s.status.Namespaces {
					sum += float64(s.status.Namespaces[i].OlderAnswers)
				}
				return sum
			}),
		gauge("botwired_cache_bytes", "Size of the answers in memory, keys included.",
			func(s *scrape) float64 { used, _ := s.from.Cache.Size(); return float64(used) }),
		gauge("botwired_cache_budget_bytes", "Size that the answers in memory may have: cache.memory.",
			func(s *scrape) float64 { _, budget := s.from.Cache.Size(); return float64(budget) }),
		gauge("botwired_upstream_up", "0 while upstream is down, else 1.",
			func(s *scrape) float64 { return oneIf(s.status.Upstream.State != "down") }),
		gauge("botwired_upstream_concurrency", "Requests that may be in flight upstream: fewer than upstream.concurrency while upstream does not take as many.",
			func(s *scrape) float64 { return float64(s.status.Upstream.Concurrency.Now) }),
		gauge("botwired_watch_caught_up", "1 while the watch of upstream misses nothing, so that no answer gets old, else 0.",
			func(s *scrape) float64 { return s.watch(func(w *api.WatchState) float64 { return oneIf(w.CaughtUp) }) }),
		gauge("botwired_watch_entries", "Entries of which the watch knows upstream's version.",
			func(s *scrape) float64 { return s.watch(func(w *api.WatchState) float64 { return float64(w.Entries) }) }),
		counter("botwired_coalesced_writes_total", "Writes since the start that needed no request upstream, as a newer one took their place.",
			func(s *scrape) float64 { return float64(s.from.Coalesced()) }),
		counter("botwired_quota_used_total", "Requests upstream that count for a quota, since the start.",
			func(s *scrape) float64 { return float64(s.from.Quotas.Spent()) }),
		counter("botwired_quota_saved_total", "Writes that needed no request, as a newer one took their place, since the start.",
			func(s *scrape) float64 { return float64(s.from.Quotas.Saved()) }),
		gauge("botwired_quota_least_left_ratio", "The part of its quota that the namespace has left which is nearest to its end; 1 if no namespace has used any.",
			(*scrape).leastLeft),
		gauge("botwired_quota_spread_namespaces", "Namespaces that spread their writes, so that their quota lasts.",
			func(s *scrape) float64 { return float64(s.from.Quotas.Spread()) }),
		gauge("botwired_quota_used_up_namespaces", "Namespaces that have used up their quota.",
			func(s *scrape) float64 {
				return s.count(func(n *api.NamespaceStatus) bool { return n.Quota != nil && n.Quota.Left == 0 })
			}),
		gauge("botwired_quota_nearly_full_namespaces", "Namespaces that hold 80 % of what they may, or more, by upstream's last list.",
			func(s *scrape) float64 { return s.count((*api.NamespaceStatus).IsNearlyFull) }),
		gauge("botwired_quota_full_namespaces", "Namespaces for which upstream has no room for more: their puts wait.",
			func(s *scrape) float64 { return s.count((*api.NamespaceStatus).IsFull) }),
		{name: "botwired_finding", labels: []string{"finding", "level"}, kind: prometheus.GaugeValue,
			help: "1 while the status has the finding, else 0. docs/metrics.md says what each means, and which alert it has.",
			read: func(s *scrape, show func(v float64, labels ...string)) {
				found := map[api.Kind]bool{s.status.Summary.Kind: true}
				for _, f := range s.status.Summary.Also {
					found[f.Kind] = true
				}
				for kind, level := range api.Kinds() {
					show(oneIf(found[kind]), string(kind), string(level))
				}
			}},
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// none marks a number that is unknown now: its metric is left out.
var none = math.NaN()
