package main

import (
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
)

func flusherOptions(d *sidecar, c *config.Config, backend upstream.Backend) flush.Options {
	first, longest := upstream.Pauses(c.Upstream.Timeout)
	return flush.Options{
		Journal: d.journal, Through: d.journal.WriteThrough, Engine: backend, Host: backend.Host, Health: d.health,
		FenceJournal: d.journal.Fence, Offset: d.offset,
		// A write must not replace a sealed value that this host cannot open.
		Fence:      func(namespace string) bool { return d.config.fence(namespace) || c.For(namespace).Sealed },
		BeforeSend: func() { d.watch.CheckDurably() },
		OnFence: func(outcome string, requests int) {
			d.metrics.Fences.WithLabelValues(outcome).Inc()
			d.metrics.FenceReads.Add(float64(requests))
		},
		Linger:  d.config.linger,
		Timeout: c.Upstream.Timeout, LateWindow: c.Upstream.LateWindow,
		BackoffInitial: first, BackoffMax: longest,
		OnSend: func(w journal.Write) { d.proxy.Sending(w) },
		OnOutcome: func(op journal.Op, verdict upstream.Verdict) {
			d.metrics.Flushes.WithLabelValues(op.String(), verdict.String()).Inc()
			d.sent.Add(1)
		},
		OnSettled:       func(w journal.Write) { d.proxy.Settled(w) },
		OnNamespaceFull: d.sizes.Learn,
		Logger:          d.logger,
	}
}
