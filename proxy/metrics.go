package proxy

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/botwired/botwired/journal"
)

// metrics counts requests by their outcome. Labels are resolved once, so that a request
// only adds one.
type metrics struct {
	requests      *prometheus.CounterVec // that has those below
	reads         [sources]prometheus.Counter
	lists         [sources]prometheus.Counter
	acknowledged  [journal.Delete + 1]prometheus.Counter // by journal.Op
	forwarded     prometheus.Counter
	refused       prometheus.Counter
	full          prometheus.Counter
	namespaceFull prometheus.Counter
	unavailable   prometheus.Counter
	failed        prometheus.Counter
}

func newMetrics(opts Options, watching *intruders) (*metrics, error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "botwired_requests_total",
		Help: "Requests of agents, by operation and outcome.",
	}, []string{"op", "outcome"})
	m := &metrics{
		requests:      requests,
		forwarded:     requests.WithLabelValues("other", "forwarded"),
		refused:       requests.WithLabelValues("any", "refused"),
		full:          requests.WithLabelValues("any", "full"),
		namespaceFull: requests.WithLabelValues("put", "namespace_full"),
		unavailable:   requests.WithLabelValues("any", "unavailable"),
		failed:        requests.WithLabelValues("any", "failed"),
	}
	for from, names := range sourceNames {
		m.reads[from] = requests.WithLabelValues("get", names.label)
		m.lists[from] = requests.WithLabelValues("list", names.label)
	}
	for _, op := range []journal.Op{journal.Put, journal.Delete} {
		m.acknowledged[op] = requests.WithLabelValues(op.String(), "acknowledged")
	}
	for _, c := range []prometheus.Collector{requests, &collector{opts, watching}} {
		if err := opts.Registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
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
	doubtsDesc        = prometheus.NewDesc("botwired_identity_doubts_total", "How often the daemon had reason to take what it knew for old, by reason: a copied or restored data directory, a machine or process that stood still.", []string{"reason"}, nil)
	upstreamUpDesc    = desc("botwired_upstream_up", "0 while upstream is down, else 1.")
	suspectDesc       = desc("botwired_suspect_namespaces", "Namespaces of which upstream no longer holds many of the entries that it has confirmed: a person has to decide.")
	olderAnswersDesc  = desc("botwired_older_answers_total", "Answers of upstream since the start that showed an older state than was known, and did not count.")
	concurrencyDesc   = desc("botwired_upstream_concurrency", "Requests that may be under way upstream: fewer than upstream.concurrency while upstream does not take as many.")
)

func desc(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }

// collector reads the state of the journal once for each scrape.
type collector struct {
	opts      Options
	intruders *intruders
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	st := c.opts.Journal.Stats()
	up, upstream := 1.0, c.opts.UpstreamState()
	if upstream.State == "down" {
		up = 0
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(pendingDesc, float64(st.Pending))
	gauge(pendingBytesDesc, float64(st.PendingBytes))
	gauge(oldestPendingDesc, st.OldestAge().Seconds())
	gauge(deadLettersDesc, float64(st.DeadLetters))
	gauge(openLettersDesc, float64(st.OpenDeadLetters))
	gauge(receiptsDesc, float64(st.Receipts))
	gauge(upstreamUpDesc, up)
	gauge(suspectDesc, float64(len(c.opts.Journal.Belief.Suspects())))
	gauge(concurrencyDesc, float64(upstream.Concurrency.Now))
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for reason, n := range c.opts.Identity.State().Doubts {
		counter(doubtsDesc, int64(n), string(reason))
	}
	counter(damagedCopiesDesc, st.DamagedCopies)
	counter(damagedTablesDesc, st.DamagedTables)
	counter(intrudersDesc, c.intruders.total.Load())
	older := 0
	for _, n := range c.opts.Journal.Belief.OlderAnswers() {
		older += n
	}
	counter(olderAnswersDesc, int64(older))
}
