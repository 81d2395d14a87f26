package main

import (
	"context"
	"os"
	"time"

	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/telemetry"
)

// tracerGrace limits how long the daemon's end waits for the last spans.
const tracerGrace = time.Second

// openTracer returns the tracer, or nil if the environment asks for none. A failure does not keep the
// daemon from starting: agents do not depend on spans.
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
