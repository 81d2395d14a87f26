package natskv

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
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
	if _, _, ok := w.e.CaughtUp(); !ok || keepFor == 0 {
		return // they stay forever, or may have been replaced
	}
	ended := 0
	for _, t := range w.index.tombstones(time.Now().Add(-keepFor).UnixMicro()) {
		switch err := w.purge(ctx, t, jetstream.WithMsgTTL(purgedFor)); {
		case err == nil:
			ended++
		case isOvertaken(err): // another host has removed the tombstone, or the entry was written
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

// isOvertaken reports whether a write was refused because another one came first.
func isOvertaken(err error) bool {
	var answer *jetstream.APIError
	return errors.As(err, &answer) && (answer.ErrorCode == codeWrongSequence || answer.ErrorCode == codeOtherUnderWay)
}

// Purge is that of [upstream.Backend]. An entry that is written meanwhile keeps its older versions.
func (e *Engine) Purge(ctx context.Context, of journal.ID) error {
	if err := e.watch.barrier(ctx); err != nil { // the index then has all tombstones
		return err
	}
	for _, t := range e.index.tombstones(math.MaxInt64) {
		if t.Namespace != of.Namespace || of.Key != "" && t.Key != of.Key {
			continue
		}
		if err := e.watch.purge(ctx, t); err != nil && !isOvertaken(err) {
			return &upstream.Error{Verdict: upstream.Transient, Reason: "older versions of " + t.String() + " cannot be removed: " + err.Error()}
		}
	}
	return nil
}

// purge replaces all versions of a deleted entry by one message, with the options.
func (w *watch) purge(ctx context.Context, t tombstone, opts ...jetstream.PublishOpt) error {
	m := encode(subjectOf(w.bucket, t.ID), t.Version)
	m.Header.Set(headerOperation, operationPurge)
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	return w.put(ctx, m, t, opts...)
}

// put publishes a message if the entry's last version still has the revision of over.
func (w *watch) put(ctx context.Context, m *nats.Msg, over tombstone, opts ...jetstream.PublishOpt) error {
	js := w.e.link.jetStream()
	if js == nil {
		return errors.New("there is no connection")
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	opts = append(opts, jetstream.WithExpectLastSequencePerSubject(over.Revision), jetstream.WithRetryAttempts(0))
	_, err := js.PublishMsg(ctx, m, opts...)
	return err
}
