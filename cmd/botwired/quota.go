package main

import (
	"path/filepath"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/upstream/quota"
)

const quotaFile = "journal.quota"

// openQuotas opens the namespaces' quotas. Their counts are kept beside the journal.
func (d *sidecar) openQuotas(c *config.Config) *quota.Quotas {
	quotas := quota.New(quota.Options{
		Of:     d.config.quota,
		Ledger: quota.OpenLedger(filepath.Join(c.DataDir, quotaFile), nil, d.logger),
		Logger: d.logger,
	})
	d.requota = quotas.Changed
	d.onClose(func() error {
		if err := quotas.Close(); err != nil { // no acknowledged write depends on it
			d.logger.Warn("the quota's count could not be written to the disk: the next start goes by what was recorded before", "error", err)
		}
		return nil
	})
	return quotas
}

// quotasForStatus returns a function that returns the quotas for the status.
func quotasForStatus(quotas *quota.Quotas) func() map[string]api.Quota {
	return func() map[string]api.Quota {
		all := make(map[string]api.Quota)
		for namespace, r := range quotas.Reports() {
			shown := api.Quota{
				Limit: r.Limit, Used: r.Used, Left: r.Left,
				ResetsAt: r.ResetsAt.UTC().Round(time.Millisecond), LingerSeconds: float64(r.Linger.Milliseconds()) / 1e3,
			}
			if at := r.RunsOutAt.UTC().Round(time.Millisecond); !r.RunsOutAt.IsZero() {
				shown.RunsOutAt = &at
			}
			all[namespace] = shown
		}
		return all
	}
}
