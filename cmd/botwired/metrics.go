package main

import (
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/upstream/quota"
)

func newMetrics() *metrics.Metrics {
	b := build.This()
	return metrics.New(metrics.Build{Version: b.Version, Go: b.Go, Platform: b.Platform, Revision: b.Revision})
}

// readMetrics lets the metrics read the state of the daemon's parts, which are open.
func (d *sidecar) readMetrics(quotas *quota.Quotas) {
	from := metrics.Sources{
		Journal: d.journal, Sizes: d.sizes, Cache: d.cache, Identity: d.watch, Quotas: quotas,
		Disk: d.proxy.DiskUsage, Coalesced: d.flusher.Saved,
		Upstream: func() (up bool, concurrency int) {
			now := d.upstreamState()
			return now.State != "down", now.Concurrency.Now
		},
	}
	if view := d.engine.View; view != nil {
		from.Watch = func() (caughtUp bool, entries int) {
			now := view.State()
			return now.CaughtUp, now.Entries
		}
	}
	d.metrics.Read(from)
}
