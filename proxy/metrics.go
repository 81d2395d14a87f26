package proxy

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/botwired/botwired/journal"
)

// metrics counts and measures requests.
type metrics struct {
	acknowledged atomic.Int64 // writes
	awaited      atomic.Int64 // acknowledged writes whose callers have waited for upstream
	forwarded    prometheus.Counter
	failed       prometheus.Counter
	latencies    *latencies
	watched      watchCounters
	disk         *diskLook
}

func newMetrics(opts Options, watching *intruders) (*metrics, error) {
	m := &metrics{
		forwarded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "botwired_forwarded_requests_total",
			Help: "Requests that are not the memory API's, passed on to upstream.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "botwired_failed_requests_total",
			Help: "Requests answered with 500, of the memory API or not: the log has a line for each.",
		}),
		latencies: newLatencies(),
		disk:      &diskLook{journal: opts.Journal},
		watched:   newWatchCounters(),
	}
	for _, c := range []prometheus.Collector{
		m.forwarded, m.failed, m.latencies.histograms, m.watched.events, m.watched.fetches, &collector{opts, watching, m.disk},
	} {
		if err := opts.Registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

// count counts a write.
func (m *metrics) count(r *Result) {
	if r.Read {
		return
	}
	m.acknowledged.Add(1)
	if r.Awaited || r.Through {
		m.awaited.Add(1)
	}
}

var (
	pendingDesc       = desc("botwired_pending", "Writes acknowledged and not yet confirmed by upstream.")
	pendingBytesDesc  = desc("botwired_pending_bytes", "Size of the pending writes, as journal.max_bytes counts them.")
	oldestPendingDesc = desc("botwired_oldest_pending_seconds", "How long the oldest pending write has been waiting.")
	deadLettersDesc   = desc("botwired_dead_letters", "Dead letters that are kept.")
	openLettersDesc   = desc("botwired_open_dead_letters", "Dead letters that wait for a person to decide: upstream has refused them, and no later write has superseded them.")
	receiptsDesc      = desc("botwired_receipts", "Receipts of writes that have settled, were superseded or are dead.")
	damagedCopiesDesc = desc("botwired_damaged_copies_total", "Settled copies and listings that were found damaged since the start and asked of upstream anew.")
	damagedTablesDesc = desc("botwired_damaged_tables_total", "Tables of the journal that were found damaged since the start.")
	intrudersDesc     = desc("botwired_exclusive_foreign_writes_total", "Writes of others that were found since the start in namespaces that are set exclusive.")
	doubtsDesc        = desc("botwired_identity_doubts_total", "How often the daemon had reason to take what it knew for old, by reason: a copied or restored data directory, a machine or process that stood still.", "reason")
	upstreamUpDesc    = desc("botwired_upstream_up", "0 while upstream is down, else 1.")
	suspectDesc       = desc("botwired_suspect_namespaces", "Namespaces of which upstream no longer holds many of the entries that it has confirmed: a person has to decide.")
	olderAnswersDesc  = desc("botwired_older_answers_total", "Answers of upstream since the start that showed an older state than was known, and did not count.")
	concurrencyDesc   = desc("botwired_upstream_concurrency", "Requests that may be under way upstream: fewer than upstream.concurrency while upstream does not take as many.")
	refusesDesc       = desc("botwired_journal_refuses_writes", "1 while the journal takes no writes, for want of room or because it has failed, else 0.")
	coalescedDesc     = desc("botwired_coalesced_writes_total", "Writes since the start that needed no request upstream, as a newer one took their place.")
	quotaLeftDesc     = desc("botwired_quota_least_left_ratio", "The part of its quota that the namespace has left which is nearest to its end; 1 if no namespace has used any.")
	cacheDesc         = desc("botwired_cache_bytes", "Size of the answers in memory, keys included.")
	cacheBudgetDesc   = desc("botwired_cache_budget_bytes", "Size that the answers in memory may have: cache.memory.")
	journalDesc       = desc("botwired_journal_bytes", "Size of the journal on the disk, without the settled copies.")
	copiesDesc        = desc("botwired_copies_bytes", "Size of the settled copies and listings on the disk.")
	freeDesc          = desc("botwired_disk_free_bytes", "Free space on the journal's disk, for the daemon's user.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// collector reads the state of the journal once for each scrape.
type collector struct {
	opts      Options
	intruders *intruders
	disk      *diskLook
}

// Describe implements [prometheus.Collector]. Some metrics have no value yet.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		pendingDesc, pendingBytesDesc, oldestPendingDesc, deadLettersDesc, openLettersDesc, receiptsDesc,
		damagedCopiesDesc, damagedTablesDesc, intrudersDesc, doubtsDesc, upstreamUpDesc, suspectDesc, olderAnswersDesc,
		concurrencyDesc, refusesDesc, coalescedDesc, quotaLeftDesc, cacheDesc, cacheBudgetDesc, journalDesc, copiesDesc, freeDesc,
		watchSoundDesc, watchEntriesDesc,
	} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	set := func(of prometheus.ValueType) func(*prometheus.Desc, float64, ...string) {
		return func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, of, v, labels...)
		}
	}
	gauge, counter := set(prometheus.GaugeValue), set(prometheus.CounterValue)
	st := c.opts.Journal.Stats()
	c.collectState(&st, gauge)
	c.collectCounts(&st, counter)
	c.collectWatch(gauge)
	used, budget := c.opts.Cache.Size()
	gauge(cacheDesc, float64(used))
	gauge(cacheBudgetDesc, float64(budget))
	if disk, err := c.disk.now(); err == nil { // a journal that is closed has no size
		gauge(journalDesc, float64(disk.Journal))
		gauge(copiesDesc, float64(disk.Copies))
		if disk.Free != nil {
			gauge(freeDesc, float64(*disk.Free))
		}
	}
}

func (c *collector) collectState(st *journal.Stats, gauge func(*prometheus.Desc, float64, ...string)) {
	upstream := c.opts.UpstreamState()
	gauge(pendingDesc, float64(st.Pending))
	gauge(pendingBytesDesc, float64(st.PendingBytes))
	gauge(oldestPendingDesc, st.OldestAge().Seconds())
	gauge(deadLettersDesc, float64(st.DeadLetters))
	gauge(openLettersDesc, float64(st.OpenDeadLetters))
	gauge(receiptsDesc, float64(st.Receipts))
	gauge(upstreamUpDesc, oneIf(upstream.State != "down"))
	gauge(suspectDesc, float64(len(c.opts.Journal.Trust.Suspects())))
	gauge(concurrencyDesc, float64(upstream.Concurrency.Now))
	gauge(refusesDesc, oneIf(c.opts.Journal.Err() != nil))
	if c.opts.Quotas != nil {
		gauge(quotaLeftDesc, leastLeft(c.opts.Quotas()))
	}
}

// leastLeft is the part of its quota that the namespace has left which is nearest to its end.
func leastLeft(quotas map[string]Quota) float64 {
	least := 1.0
	for _, q := range quotas {
		if q.Limit > 0 {
			least = min(least, float64(q.Left)/float64(q.Limit))
		}
	}
	return least
}

func (c *collector) collectCounts(st *journal.Stats, counter func(*prometheus.Desc, float64, ...string)) {
	for reason, n := range c.opts.Identity.State().Doubts {
		counter(doubtsDesc, float64(n), string(reason))
	}
	older := 0
	for _, n := range c.opts.Journal.Trust.OlderAnswers() {
		older += n
	}
	counter(damagedCopiesDesc, float64(st.DamagedCopies))
	counter(damagedTablesDesc, float64(st.DamagedTables))
	counter(intrudersDesc, float64(c.intruders.total.Load()))
	counter(olderAnswersDesc, float64(older))
	if c.opts.Writes != nil {
		_, coalesced := c.opts.Writes()
		counter(coalescedDesc, float64(coalesced))
	}
}
