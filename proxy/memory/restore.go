package memory

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/journal"
)

const (
	// restoredAtOnce bounds the pending writes of a restoration, so that the list that chose them stays
	// recent.
	restoredAtOnce = 100
	restorePause   = 5 * time.Second
	// beforeAll is in Unix seconds. The fence takes it as the copy's time: any state upstream is later.
	beforeAll = 1
	// lookAgainEvery is the minimum time between two checks whether a namespace with data loss is whole
	// again.
	lookAgainEvery = 2 * time.Second
)

// Restorer gives back to upstream the entries that upstream has lost, for as long as a person wants
// this.
type Restorer struct {
	m      *Memory
	logger *slog.Logger

	// changing is held while a restoration begins or ends together with its mark in the journal. Its holder
	// may wait until a canceled restoration is over.
	changing chan struct{}

	losses atomic.Uint64 // the number of calls of DistrustAll

	mu      sync.Mutex // guards the fields below, and those of each restoration
	running map[string]*Restoration
	looked  map[string]time.Time // when the list of a namespace with data loss was last requested
}

// Restoration is the work on one namespace. It resumes after a restart.
type Restoration struct {
	cancel context.CancelFunc
	Over   chan struct{}
	Err    error // why it stopped early; set before Over is closed
	counts RestoreCounts
}

// RestoreCounts counts entries by the outcome of their restoration.
type RestoreCounts struct {
	Restored int // upstream has them again
	Kept     int // upstream held another state, which stays
	Failed   int // upstream refused them
}

// Resume resumes the restorations that an earlier process was asked for.
func (r *Restorer) Resume() {
	for namespace, s := range r.m.journal.Trust.Suspects() {
		if s.Restoring { // guard 9.63
			_, _ = r.start(namespace) // it fails only if the server is stopping
		}
	}
}

// lookAgain requests the list of a namespace with data loss, because upstream has answered with one of
// the namespace's entries.
func (r *Restorer) lookAgain(namespace string) {
	if _, suspect := r.m.journal.Trust.Suspect(namespace); !suspect {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.looked[namespace]) < lookAgainEvery {
		return
	}
	for other, at := range r.looked { // some have no data loss any more
		if now.Sub(at) >= lookAgainEvery {
			delete(r.looked, other)
		}
	}
	r.looked[namespace] = now
	r.m.fetches.begin(&listing{r.m, namespace, maxListLimit}, false) // guard 9.60
}

// Begin starts or joins the restoration of a namespace, and records that a person wants it. Its errors are
// the journal's, and context.Canceled if the server is stopping.
func (r *Restorer) Begin(namespace string) (*Restoration, error) {
	r.changing <- struct{}{}
	defer func() { <-r.changing }()
	if err := r.m.journal.Trust.SetRestoring(namespace, true); err != nil {
		return nil, err
	}
	return r.start(namespace)
}

func (r *Restorer) start(namespace string) (*Restoration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.running[namespace]; now != nil {
		return now, nil
	}
	if !r.m.tasks.Start() {
		return nil, context.Canceled
	}
	ctx, cancel := context.WithCancel(r.m.tasks.Detached())
	now := &Restoration{cancel: cancel, Over: make(chan struct{})}
	r.running[namespace] = now
	go func() {
		defer r.m.tasks.Done()
		defer close(now.Over)
		defer cancel()
		now.Err = tasks.Recovered(r.logger, func() error { return r.run(ctx, namespace, now) })
		if now.Err != nil && ctx.Err() == nil {
			r.logger.Error("the restoration of a namespace has ended", "namespace", namespace, "error", now.Err)
		}
		r.leave(namespace, now)
	}()
	return now, nil
}

// leave lets the next Begin start another restoration.
func (r *Restorer) leave(namespace string, now *Restoration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[namespace] == now {
		delete(r.running, namespace)
	}
}

// End stops the restoration of a namespace, if there is one, and waits until it is over. Writes that it
// has journaled still go upstream.
func (r *Restorer) End(namespace string) error {
	r.changing <- struct{}{}
	defer func() { <-r.changing }()
	r.mu.Lock()
	now := r.running[namespace]
	r.mu.Unlock()
	if now != nil {
		now.cancel()
		<-now.Over
	}
	return r.m.journal.Trust.SetRestoring(namespace, false)
}

// Progress returns the counts of a restoration so far.
func (r *Restorer) Progress(of *Restoration) RestoreCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return of.counts
}

// run writes the entries that upstream lacks, some at a time, until upstream lacks none with a local copy.
// Its errors are the journal's and ctx's.
func (r *Restorer) run(ctx context.Context, namespace string, of *Restoration) error {
	if err := r.await(ctx, &Restoration{}, r.pending(namespace)); err != nil { // of an earlier process
		return err
	}
	done, losses := make(map[string]bool), r.losses.Load()
	for {
		rows, complete, err := r.lookUntilAnswered(ctx, namespace, func() bool { return false })
		if err != nil {
			return err
		}
		if now := r.losses.Load(); now != losses { // guard 9.79
			losses = now
			clear(done) // upstream may have lost it again
		}
		if _, suspect := r.m.journal.Trust.Suspect(namespace); !suspect && !r.m.exact {
			return r.conclude(ctx, namespace, of)
		}
		lacking, err := r.lacking(ctx, namespace, rows, complete, done)
		if err != nil {
			return err
		}
		if len(lacking) == 0 {
			return r.finish(ctx, namespace, of, losses)
		}
		written, err := r.write(lacking, done)
		if err == nil {
			err = r.await(ctx, of, written)
		}
		if err == nil && len(written) == 0 {
			err = tasks.Sleep(ctx, restorePause) // there is no room, or all of them are changing
		}
		if err != nil {
			return err
		}
	}
}

// finish ends the restoration, and the journal judges by upstream's list again. On an exact upstream, an
// entry that is still missing was deleted later, unless upstream has lost more since losses was counted.
func (r *Restorer) finish(ctx context.Context, namespace string, of *Restoration, losses uint64) error {
	r.logger.Info("upstream has got back all that it lacked and of which there is a copy", "namespace", namespace)
	if err := r.conclude(ctx, namespace, of); err != nil {
		return err
	}
	_, _, err := r.lookUntilAnswered(ctx, namespace, func() bool { return r.m.exact && r.losses.Load() == losses }) // guard 9.80
	return err
}

// conclude records that the restoration has no more to write. Nobody joins it any more.
func (r *Restorer) conclude(ctx context.Context, namespace string, of *Restoration) error {
	select {
	case r.changing <- struct{}{}:
		defer func() { <-r.changing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	r.leave(namespace, of) // guard 9.78
	return r.m.journal.Trust.SetRestoring(namespace, false)
}

func (r *Restorer) lookUntilAnswered(ctx context.Context, namespace string, believes func() bool) (rows []journal.Row, complete bool, err error) {
	err = untilAnswered(ctx, func() error {
		rows, complete, _, err = r.look(ctx, namespace, believes)
		return err
	})
	return rows, complete, err
}

// untilAnswered calls ask until upstream answers.
func untilAnswered(ctx context.Context, ask func() error) error {
	for {
		if err := ask(); err == nil || !isUnavailable(err) { // guard 9.65
			return err
		}
		if err := tasks.Sleep(ctx, restorePause); err != nil {
			return err
		}
	}
}

// lacking returns some entries with a local copy that upstream lacks, or holds in an older version if
// versions can be compared by time. If the list may lack keys, it asks upstream for each such entry,
// once. It leaves out the entries in done.
func (r *Restorer) lacking(ctx context.Context, namespace string, rows []journal.Row, complete bool, done map[string]bool) (ids []journal.ID, err error) {
	held := make(map[string]float64, len(rows))
	for _, row := range rows {
		held[row.Key] = row.UpdatedAt
	}
	for after := ""; len(ids) < restoredAtOnce; {
		copies, err := r.m.journal.Trust.Copies(namespace, after, restoredAtOnce)
		if err != nil || len(copies) == 0 {
			return ids, err
		}
		after = copies[len(copies)-1].Key
		for _, c := range copies {
			id := journal.ID{Namespace: namespace, Key: c.Key}
			at, isHeld := held[c.Key]
			isOlder := r.m.exact && micros(at) < micros(c.UpdatedAt)
			if isHeld && !isOlder || done[c.Key] || len(ids) == restoredAtOnce { // guard 17.28, 13.27, 3.34
				continue
			}
			if !complete { // guard 17.29
				if done[c.Key], err = r.holds(ctx, id); err != nil {
					return nil, err
				}
			}
			if !done[c.Key] { // guard 13.27b
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

func (r *Restorer) holds(ctx context.Context, id journal.ID) (held bool, err error) {
	err = untilAnswered(ctx, func() error {
		seen, err := r.m.upstream.Get(ctx, id, true)
		held = seen != nil
		return err
	})
	return held, err
}

// write journals copies as pending writes that give way to any state that upstream does hold. It stops when
// there is no room.
func (r *Restorer) write(ids []journal.ID, done map[string]bool) (written []journal.Write, err error) {
	for _, id := range ids {
		w, err := r.writeOne(id)
		switch {
		case err == nil:
			done[id.Key] = true
			written = append(written, w)
		case errors.Is(err, journal.ErrFull), IsNamespaceFull(err):
			return written, nil
		case !errors.Is(err, journal.ErrChanged):
			return written, err
		}
	}
	return written, nil
}

func (r *Restorer) writeOne(id journal.ID) (journal.Write, error) {
	lease := r.m.cache.Lease(entryKey(id))
	defer lease.Release()
	state, err := r.m.journal.Lookup(id)
	if err != nil {
		return journal.Write{}, err
	}
	if state.Kind != journal.Settled {
		return journal.Write{}, journal.ErrChanged
	}
	w := journal.NewWrite{ // guard 17.30
		ID: id, Op: journal.Put, Value: state.Value, ListBytes: state.ListBytes, Author: state.Author,
		WrittenAt: beforeAll, LosesTies: true, Fenced: true,
		If: func(newest uint64) bool { return newest == 0 && !lease.Revoked() },
	}
	if state.MadeAt != 0 { // its version names its time
		w.WrittenAt = state.MadeAt
	}
	// guard 17.31
	if r.m.exact { // upstream gets the copy back with its own time: another host's later write beats it
		w.WrittenAt, w.At = state.UpdatedAt, state.UpdatedAt
	}
	return r.m.journal.Append(w)
}

// pending returns the pending writes that a restoration waits for.
func (r *Restorer) pending(namespace string) (writes []journal.Write) {
	for _, p := range r.m.journal.PendingList(namespace, restoredAtOnce) {
		writes = append(writes, journal.Write{ID: p.ID, Seq: p.Seq, Op: p.Op})
	}
	return writes
}

// await waits until none of the writes is pending, and counts their outcomes.
func (r *Restorer) await(ctx context.Context, of *Restoration, written []journal.Write) error {
	for _, w := range written {
		if !r.m.journal.Receipts.Await(ctx, &journal.Receipt{ID: w.ID, Seq: w.Seq, Op: w.Op}) {
			return ctx.Err()
		}
		receipt, err := r.m.journal.Receipts.Read(ctx, w.Seq)
		if err != nil && !errors.Is(err, journal.ErrNoReceipt) {
			return err
		}
		r.mu.Lock()
		switch receipt.State {
		case journal.ReceiptSettled:
			of.counts.Restored++
		case journal.ReceiptDead:
			of.counts.Failed++
		default:
			of.counts.Kept++
		}
		r.mu.Unlock()
	}
	return nil
}

// Look asks upstream for a namespace's list and stores it. With believe, it accepts that all missing entries
// are deleted. forgotten counts the entries that are no longer known.
func (r *Restorer) Look(ctx context.Context, namespace string, believe bool) (rows []journal.Row, complete bool, forgotten int, err error) {
	return r.look(ctx, namespace, func() bool { return believe })
}

// look is Look. It calls believes when upstream has answered.
func (r *Restorer) look(ctx context.Context, namespace string, believes func() bool) (rows []journal.Row, complete bool, forgotten int, err error) {
	for {
		fill := r.m.journal.BeginListing(namespace)
		if rows, complete, err = r.m.upstream.List(ctx, namespace, false); err != nil {
			fill.Cancel()
			return nil, false, 0, r.inTime(ctx, err)
		}
		if believes() {
			fill.Believe()
		}
		err = fill.Commit(rows, complete)
		if !errors.Is(err, journal.ErrChanged) { // guard 9.76
			return rows, complete, fill.Dropped(), err
		}
		if err := ctx.Err(); err != nil {
			return nil, false, 0, r.inTime(ctx, err)
		}
	}
}

func (r *Restorer) inTime(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return r.m.upstream.TooLong()
	}
	return err
}

// namespacesAtOnce bounds the names that are read at a time.
const namespacesAtOnce = 1000

// DistrustAll records data loss for every known namespace. The caller lets upstream answer only afterwards.
func (r *Restorer) DistrustAll() error {
	r.losses.Add(1)
	for after := ""; ; {
		names, err := r.m.journal.Keys.Namespaces(after, namespacesAtOnce, func(string) bool { return true })
		if err != nil || len(names) == 0 {
			return err
		}
		for _, namespace := range names {
			if err := r.distrust(namespace); err != nil {
				return err
			}
		}
		after = names[len(names)-1]
	}
}

// distrust keeps the local state of a namespace, even where upstream lacks it.
func (r *Restorer) distrust(namespace string) error {
	for {
		fill := r.m.journal.BeginListing(namespace)
		fill.Distrust()
		if err := fill.Commit(nil, true); !errors.Is(err, journal.ErrChanged) {
			return err
		}
	}
}
