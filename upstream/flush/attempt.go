package flush

import (
	"context"
	"errors"
	"log/slog"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// attempt is one run of a task: it sends the entry's newest write. Its ending says what the answer means for the entry, its namespace and upstream's health. The task
// belongs to the attempt until end applies that.
type attempt struct {
	f     *Flusher
	queue *queue
	task  *task

	newest    uint64 // the task's newest write when the attempt began
	newer     uint64 // position of the first write that this attempt does not send; 0: none
	startedAt instant
	probe     bool          // it tests whether an outage is over
	trial     bool          // it tests whether the namespace is let in again
	silent    bool          // the entry's last request hung
	early     bool          // an older request may still land: the process is about to end
	removes   bool          // it sends a delete, and there is a quota
	charged   bool          // the quota counts the request
	flying    bool          // the quota has counted the request
	requested bool          // the write's request was made
	heard     bool          // the health knows how upstream is
	down      bool          // upstream is down, as the failure shows
	ended     chan struct{} // closed when the attempt ends; nil until somebody waits for that
}

func (a *attempt) id() journal.ID { return a.queue.id(a.task) }

// run returns only the journal's errors, which end the flusher.
func (a *attempt) run(ctx context.Context) error {
	defer a.f.signal()
	e, err := a.send(ctx)
	if err != nil {
		return err
	}
	a.end(e)
	return nil
}

// send sends the entry's newest write.
func (a *attempt) send(ctx context.Context) (ending, error) {
	w, ok, err := a.f.opts.Journal.Newest(a.id())
	if err != nil {
		return ending{}, err
	}
	if !ok {
		return ending{task: settles, write: journal.Write{Seq: a.newest}}, nil // only a window had to end
	}
	if err := a.f.opts.Journal.MaySend(); errors.Is(err, journal.ErrFull) { // guard 12.5
		// guard 3.7
		return ending{task: waitsForRoom}, nil
	} else if err != nil {
		return ending{}, err
	}
	// Before the fence asks: a record between its answer and the write would take time.
	a.f.opts.Quotas.Cover(w.Namespace) // guard 18.14
	a.sending(w)
	s := &sendAttempt{f: a.f, a: a, write: w}
	got, err := s.run(ctx)
	if err != nil {
		return ending{}, err
	}
	a.account(ctx, s, got)
	return a.conclude(ctx, s, got)
}

// account refunds the quota for a write that upstream did not count, and reports the verdict.
func (a *attempt) account(ctx context.Context, s *sendAttempt, got sent) {
	if a.requested = got.requested; !got.requested {
		return
	}
	verdict := upstream.Confirmed
	if got.failed != nil {
		verdict = got.failed.Verdict
	}
	if verdict == upstream.Unsent || verdict == upstream.Throttled { // guard 18.13
		a.takeBack()
	}
	if (verdict == upstream.Confirmed || ctx.Err() == nil) && a.f.opts.OnOutcome != nil {
		a.f.opts.OnOutcome(s.write.Op, verdict)
	}
}

// sending records that w is being sent: only a newer write is left to send.
func (a *attempt) sending(w journal.Write) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if a.task.seq <= w.Seq {
		a.task.seq, a.newer = w.Seq, 0
	}
	if a.f.diskFull {
		a.f.diskFull = false
		a.f.mu.Log(slog.LevelInfo, "there is room on the disk again: writes go upstream")
	}
}
