package main

import (
	"fmt"
	"time"
)

// variant is one daemon of a pair.
type variant int

const (
	without variant = iota
	with
)

// feature is something that the daemon does beside answering, and how two daemons differ in it.
type feature struct {
	name     string
	variants [2]string   // the two daemons, for people
	settings [2][]string // their settings
	// env is the environment of the one with the feature; it may be nil, as may all of these.
	env func(*trial) []string
	// fill gives the one with the feature what the feature keeps.
	fill func(*pair) error
	// use begins to use the feature of the daemon that has it, while both take turns.
	use func(*pair) (*user, error)
	// check fails if the feature has not been at work.
	check func(*pair) error
}

const (
	// asksEvery is how often a client asks for a receipt: so seldom that these answers are next to
	// nothing of the daemon's work.
	asksEvery = 100 * time.Millisecond
	// scrapesEvery is how often a client reads the metrics, more often than Prometheus by default.
	scrapesEvery = time.Second
	// endless is a quota of writes that no load slows down for.
	endless = "2000000000"
)

// sameTwice is the row of two daemons that do not differ.
const sameTwice = "none: the same twice"

// allFeatures lists the features to measure.
//
// There is no setting against receipts: the daemon leaves one of each write that has ended. Their
// row says what it costs that many are there and that a client asks for them. Nor is there a
// setting against counting for the metrics: their row says what it costs to read them.
func allFeatures(receipts int) []feature {
	sampled := func(sampler ...string) func(*trial) []string {
		return func(t *trial) []string {
			return append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + t.collector.address}, sampler...)
		}
	}
	return []feature{
		{name: sameTwice, variants: [2]string{"a daemon", "another one, of the same settings"}},
		{
			name: "receipts", variants: [2]string{
				"keeps none at first",
				fmt.Sprintf("keeps %s, and a client asks for %d a second", thousands(float64(receipts)), time.Second/asksEvery),
			},
			fill: keepReceipts, use: askReceipts,
		},
		{
			name: "quota", variants: [2]string{
				"`quota.writes_per_day` and `quota.namespace_bytes` are 0", "both are limits, which the load does not reach",
			},
			settings: [2][]string{
				without: {"--quota-writes-per-day", "0", "--quota-namespace-bytes", "0"},
				with:    {"--quota-writes-per-day", endless, "--quota-namespace-bytes", "1GB"},
			},
		},
		{
			name: "fence", variants: [2]string{"`flush.fence` is false", "`flush.fence` is true, the default"},
			settings: [2][]string{without: {"--flush-fence=false"}, with: {"--flush-fence=true"}},
		},
		{
			name: "events", variants: [2]string{"nobody follows them", "a client follows them"},
			use: follow("/_botwired/events"), check: sawEvents,
		},
		{
			name: "monitor", variants: [2]string{"nobody looks on", "a client follows the requests, as `botwired monitor` does"},
			use: follow("/_botwired/monitor"), check: sawEvents,
		},
		{
			name: "metrics", variants: [2]string{"nobody reads them", "a client reads them once a second"},
			use: readMetrics,
		},
		{
			name: "traces of all", variants: [2]string{"no collector", "a collector, and a span of each request, the default then"},
			env: sampled(), check: sawSpans,
		},
		{
			name: "traces of 1 in 100", variants: [2]string{"no collector", "a collector, and `OTEL_TRACES_SAMPLER=parentbased_traceidratio` with 0.01"},
			env: sampled("OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.01"),
		},
	}
}
