package upstream

import (
	"context"
	"time"
)

// drain is a flush at the end of the process.
type drain struct {
	since    time.Time
	deadline instant // 0 if there is none
	useless  chan struct{}
	over     bool // useless is closed
}

// Drain flushes without linger, for shutdown. It returns when nothing is pending,
// when nothing more can be done by ctx's deadline, or when ctx ends. Upstream that is
// down is tried once more at once, and not waited for when it still is. Drain is to
// be called once.
func (f *Flusher) Drain(ctx context.Context) Progress {
	select {
	case <-f.opts.Journal.Rebuilt():
	case <-ctx.Done():
		return Progress{Pending: f.opts.Journal.Stats().Pending}
	}
	d := &drain{since: time.Now(), useless: make(chan struct{})}
	if deadline, ok := ctx.Deadline(); ok {
		d.deadline = f.instant(deadline)
	}
	f.health.nudge()
	f.mu.Lock()
	f.drain = d
	f.mu.Unlock()
	f.signal()
	progress, _ := f.await(ctx, "", d.useless) // what is left is in progress
	return progress
}

// judgeDrain ends a drain for which nothing more can be done: nothing is under way,
// and the next request could be made at the given time. The caller holds mu.
func (f *Flusher) judgeDrain(next instant) {
	d := f.drain
	if d == nil || d.over || f.running > 0 {
		return
	}
	v := f.health.view()
	late := next == 0 || d.deadline != 0 && next >= d.deadline
	if late || v.down && !v.probeFailedAt.Before(d.since) {
		d.over = true
		close(d.useless)
	}
}
