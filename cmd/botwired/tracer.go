package main

import (
	"context"
	"os"
	"time"

	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/telemetry"
)

// tracerGrace is how long the last spans may take when the daemon ends.
const tracerGrace = time.Second

// openTracer returns what makes spans; nil if the environment asks for none. Agents do not depend
// on it, so that nothing about it keeps the daemon from starting.
func (d *sidecar) openTracer() *telemetry.Tracer {
	wanted, err := telemetry.Wanted(os.Getenv)
	var tracer *telemetry.Tracer
	if wanted {
		tracer, err = telemetry.Open(context.Background(), build.Version(), d.logger)
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
