package natskv

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/internal/words"
)

const (
	// purgedFor is how long the last trace of a deleted entry stays after its tombstone was removed, so
	// that each watch sees it.
	purgedFor = time.Hour
	// expiryMargin bounds the difference between the clocks of servers and hosts.
	expiryMargin = time.Minute
	// sweepEvery is the usual time between two sweeps.
	sweepEvery = time.Hour
)

// sweep removes tombstones older than Options.TombstonesFor, and expired versions from the index, until
// ctx ends.
func (w *watch) sweep(ctx context.Context) {
	expiry, timer := time.NewTicker(expiryMargin), time.NewTimer(w.untilSweep())
	defer expiry.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-expiry.C:
			w.index.expire(time.Now())
		case <-timer.C:
			w.endTombstones(ctx)
			timer.Reset(w.untilSweep())
		}
	}
}

// untilSweep returns the wait until the next sweep, with jitter.
func (w *watch) untilSweep() time.Duration {
	every := sweepEvery
	if keepFor := w.e.opts.TombstonesFor; keepFor > 0 {
		every = min(every, max(keepFor/2, time.Second))
	}
	return every/2 + rand.N(every)
}

func (w *watch) endTombstones(ctx context.Context) {
	keepFor := w.e.opts.TombstonesFor
	if _, _, ok := w.view(); !ok || keepFor == 0 {
		return // they stay forever, or may have been replaced
	}
	ended := 0
	for _, t := range w.index.tombstones(time.Now().Add(-keepFor).UnixMicro()) {
		err := w.purge(ctx, t)
		var answer *jetstream.APIError
		switch {
		case err == nil:
			ended++
		case errors.As(err, &answer) && (answer.ErrorCode == codeWrongSequence || answer.ErrorCode == codeOtherUnderWay):
			// Another host has removed the tombstone, or the entry was written.
		default:
			if ctx.Err() == nil {
				w.log.Warn("old tombstones cannot be removed: the next sweep tries again", "error", err)
			}
			return
		}
	}
	if ended > 0 {
		w.log.Info("old tombstones are removed", "tombstones", ended, "older_than", words.Duration(keepFor))
	}
}

// purge replaces all versions of a deleted entry by a message with a TTL.
func (w *watch) purge(ctx context.Context, t tombstone) error {
	js := w.e.link.jetStream()
	if js == nil {
		return errors.New("there is no connection")
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	m := encode(subjectOf(w.bucket, t.ID), t.Version)
	m.Header.Set(headerOperation, operationPurge)
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	_, err := js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(t.Revision),
		jetstream.WithMsgTTL(purgedFor), jetstream.WithRetryAttempts(0))
	return err
}
