package main

import (
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/upstream"
)

// openQuotas opens the namespaces' budgets, whose count is beside the journal, and registers
// their metrics.
func (d *sidecar) openQuotas(c *config.Config, registry *prometheus.Registry) *upstream.Quotas {
	quotas := upstream.NewQuotas(upstream.QuotasOptions{
		Of: func(namespace string) upstream.Quota {
			q := d.config.Load().For(namespace).Quota
			return upstream.Quota{Writes: q.WritesPerDay, Period: q.Period, MaxAge: q.MaxAge}
		},
		Ledger: journal.OpenSpendings(journal.Options{Dir: filepath.Join(c.DataDir, journalDir), Logger: d.logger}),
		Logger: d.logger,
	})
	d.requota = quotas.Changed
	d.onClose(func() error {
		if err := quotas.Close(); err != nil { // no acknowledged write depends on it
			d.logger.Warn("the quota's count could not be written to the disk: the next start goes by what was recorded before", "error", err)
		}
		return nil
	})
	counter := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	registry.MustRegister(
		counter("botwired_quota_used_total", "Requests upstream that count for a quota, since the start.", quotas.Spent),
		counter("botwired_quota_saved_total", "Writes that needed no request, as a newer one took their place, since the start.", quotas.Saved),
		gauge("botwired_quota_spread_namespaces", "Namespaces that spread their writes, so that their quota lasts.",
			func() int { spread, _ := quotas.Short(); return spread }),
		gauge("botwired_quota_used_up_namespaces", "Namespaces that have used up their quota.",
			func() int { _, usedUp := quotas.Short(); return usedUp }),
		gauge("botwired_quota_nearly_full_namespaces", "Namespaces that hold 80 % of what they may, or more, the full ones among them.",
			func() int { return len(d.sizes.NearlyFull()) }),
		gauge("botwired_quota_full_namespaces", "Namespaces that hold what they may: writes that make them larger are refused.",
			d.fullNamespaces),
	)
	return quotas
}

func (d *sidecar) fullNamespaces() (count int) {
	for _, size := range d.sizes.NearlyFull() {
		if size.Bytes >= size.Limit {
			count++
		}
	}
	return count
}

// quotasForStatus are the budgets as the proxy shows them.
func quotasForStatus(quotas *upstream.Quotas) func() map[string]proxy.Quota {
	return func() map[string]proxy.Quota {
		all := make(map[string]proxy.Quota)
		for namespace, r := range quotas.Reports() {
			all[namespace] = proxy.Quota{
				Limit: r.Limit, Used: r.Used, Left: r.Left, ResetsAt: r.ResetsAt, Linger: r.Linger,
				RunsOutAt: r.RunsOutAt,
			}
		}
		return all
	}
}
