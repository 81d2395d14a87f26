package main

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/botwired/botwired/internal/telemetry"
)

// tracerGrace is how long the last spans may take when the daemon ends.
const tracerGrace = time.Second

// newRegistry returns the registry of a daemon that starts now, with what says which program it
// is. The daemon's parts register their own metrics.
func newRegistry() *prometheus.Registry {
	registry, started, b := prometheus.NewRegistry(), time.Now(), thisBuild()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "botwired_build_info", Help: "1, for the build that runs.",
	}, []string{"version", "goversion", "platform", "revision"})
	info.WithLabelValues(b.Version, b.Go, b.Platform, b.Revision).Set(1)
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), info,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "botwired_uptime_seconds", Help: "How long ago the daemon started.",
		}, func() float64 { return time.Since(started).Seconds() }),
	)
	return registry
}

// openTracer returns what makes spans; nil if the environment asks for none. Agents do not depend
// on it, so that nothing about it keeps the daemon from starting.
func (d *sidecar) openTracer() *telemetry.Tracer {
	wanted, err := telemetry.Wanted(os.Getenv)
	var tracer *telemetry.Tracer
	if wanted {
		tracer, err = telemetry.Open(context.Background(), buildVersion(), d.logger)
	}
	if err != nil {
		d.logger.Warn("botwired exports no spans", "error", err)
		return nil
	}
	if tracer != nil {
		d.onClose(func() error { tracer.Close(tracerGrace); return nil })
	}
	return tracer
}
