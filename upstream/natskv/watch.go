package natskv

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

const (
	// lookUpTimeout bounds a look at the bucket that requests wait for. Servers that have not yet
	// agreed on a leader never answer: the request has to be repeated.
	lookUpTimeout = 2 * time.Second
	// awayFor is how long the watch may be away and still resume from its last revision. The last trace
	// of a deleted entry stays longer: see purgedFor.
	awayFor = purgedFor / 2
	// rereadFirst and rereadMost bound the wait before the watch reads the whole bucket once more because
	// the index and the stream have different numbers of entries. It doubles from one to the other.
	rereadFirst, rereadMost = 10 * time.Second, 10 * time.Minute
)

// watch keeps the index up to date, and knows whether it is up to date. One session at a time delivers
// the stream's messages, without their bodies. Once a second, the watch asks the stream's leader for
// the last revision. A session that does not reach that revision is asleep, and the watch replaces the
// session.
type watch struct {
	e        *Engine
	bucket   string
	log      *slog.Logger
	keeper   *keeper
	index    *index
	progress progress

	stirred chan struct{} // the state may have changed: capacity 1
	looks   chan look
	accepts chan bool // says if lost deletes are given back: capacity 1

	// The goroutine of run owns the fields below.
	session  *session
	consumer string // of the last session
	before   check  // the last comparison, and the number of events then
	events   int
	replaced *index // the index before another bucket was accepted
	restores bool   // the deletes in replaced are given back
	reread   time.Time
	pause    time.Duration // before the bucket is read again; see rereadFirst
	odd      int           // comparisons in a row with different numbers of entries
	asking   bool          // a look is in flight
}

func newWatch(e *Engine) (*watch, error) {
	k, err := newKeeper(e.opts)
	if err != nil {
		return nil, err
	}
	w := &watch{
		e: e, bucket: e.opts.Bucket, log: e.opts.Logger, keeper: k, index: e.index,
		stirred: make(chan struct{}, 1), looks: make(chan look, 1), accepts: make(chan bool, 1),
	}
	w.progress.since, w.progress.why = time.Now(), "there was no connection yet"
	w.index.latest.micros = k.latest(time.Now())
	w.index.onAhead = func(host string, by time.Duration) {
		w.log.Warn("another host's clock is ahead of this machine's: its writes win over later ones until that time has come",
			"host", host, "ahead", by.Round(time.Second).String())
	}
	return w, nil
}

// stir makes run check the state.
func (w *watch) stir() {
	select {
	case w.stirred <- struct{}{}:
	default:
	}
}

func (w *watch) disconnected() {
	w.keeper.disconnected()
	w.stir()
}

// run keeps the index up to date until ctx ends.
func (w *watch) run(ctx context.Context) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	var sweeps sync.WaitGroup
	sweeps.Go(func() { w.sweep(ctx) })
	defer func() {
		if w.asking {
			<-w.looks
		}
		w.endSession()
		sweeps.Wait()
		w.keeper.save()
	}()
	w.ask(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.ask(ctx)
		case <-w.stirred:
			if w.e.link.jetStream() == nil || w.keeper.refuses() != nil {
				w.ask(ctx)
			}
		case l := <-w.looks:
			w.asking = false
			w.compare(ctx, l)
			if l.connection != w.keeper.current() {
				w.ask(ctx)
			}
		case w.restores = <-w.accepts:
			w.endSession()
			w.replaced = w.index.clear()
			w.progress.forget()
			w.ask(ctx)
		case <-w.sessionEnded():
			began := w.session.began
			w.keeper.interrupt()
			w.endSession()
			if time.Since(began) > checkEvery { // otherwise the next one may end as soon
				w.ask(ctx)
			}
		}
		w.advance(ctx)
	}
}

func (w *watch) advance(ctx context.Context) {
	if !w.progress.promote() {
		if stale, wasSound := w.progress.stale(time.Now()); stale && wasSound {
			w.becomes(false, "the watch of the bucket does not keep up with it")
		}
		return
	}
	if s := w.session; s != nil && s.loading {
		w.loaded(ctx, s)
	}
	if stale, _ := w.progress.stale(time.Now()); !stale { // otherwise the answer came too late
		w.becomes(true, "")
	}
}

// loaded ends a reading of the whole bucket. It removes the entries that were not delivered: they are
// gone.
func (w *watch) loaded(ctx context.Context, s *session) {
	s.loading = false
	shown, earlier := s.takeShown()
	wentBack := w.index.wentBack(earlier, shown, s.last) ||
		w.keeper.denied(func(id journal.ID) upstream.Version { return w.index.shownVersion(id, shown, s.last) })
	w.keeper.read(wentBack)
	if wentBack {
		w.endSession()
		w.progress.forget()
		w.becomes(false, "the bucket shows earlier versions of entries than before")
		w.stir()
		return
	}
	if w.replaced != nil {
		w.index.tellMissing(w.replaced, s.last)
		if lost := w.index.lostDeletes(w.replaced); w.restores && len(lost) > 0 {
			w.e.background.Go(func() { w.deleteAgain(ctx, lost) })
		}
		w.replaced = nil
	}
	if n := w.index.vanished(shown, s.last); n > 0 {
		w.log.Warn("upstream has removed entries without a trace", "entries", n)
	}
	w.index.setLoaded()
	w.progress.loaded()
	w.log.Info("the whole bucket has been read", "bucket", w.bucket, "entries", w.index.figures().entries,
		"took", time.Since(s.began).Round(time.Millisecond).String())
}

func (w *watch) becomes(sound bool, why string) {
	if !w.progress.becomes(sound, why) {
		return
	}
	if sound {
		w.log.Info("upstream's changes are watched: copies need not be asked for", "bucket", w.bucket)
	} else {
		level := slog.LevelInfo
		if w.keeper.unusable() != "" {
			level = slog.LevelError
		}
		w.log.Log(context.Background(), level, "upstream's changes are not watched: copies are fresh by their age", "bucket", w.bucket, "reason", why)
	}
}

// compare handles the leader's answer.
func (w *watch) compare(ctx context.Context, l look) {
	if why := l.unusable(); why != "" {
		w.keeper.interrupt()
		if l.err != nil {
			w.keeper.fails(l.err, l.unfit, l.connection)
		}
		if l.err == nil && !l.late { // otherwise it is not known whether the leader has a majority
			w.keeper.lacksMajority(why)
		}
		if !l.connected {
			w.endSession()
		}
		w.becomes(false, why)
		return
	}
	there := Mark{Created: l.created, Revision: l.last, At: l.at}
	if !l.gone {
		there.Latest = seconds(w.index.latest.get())
	}
	if w.keeper.lags(there, l.seen, l.connection) {
		return
	}
	if !w.keeper.judge(there, l.witness, l.connection, time.Now()) {
		w.endSession()
		why := "the connection was lost"
		if refused := w.keeper.refuses(); refused != nil {
			why = refused.Reason
		}
		w.becomes(false, why)
		return
	}
	if l.witness == isMissing { // the entries may show that the bucket went back
		w.endSession()
		w.progress.forget()
	}
	if l.searched {
		w.progress.nothingAfter(l.existing, l.before)
	}
	if w.session != nil && w.progress.asleep(w.before, w.events) {
		w.log.Warn("the watch of the bucket sleeps: another one takes its place",
			"at", w.progress.at(), "revision", l.last)
		w.endSession()
	}
	odd := w.session != nil && w.miscounts(l)
	if odd && w.odd > 1 {
		w.progress.setOdd(true) // first: who sees that the view is not sound gets no list from it
		w.becomes(false, otherEntries)
		if since := time.Since(w.reread); since >= w.pause {
			w.log.Warn(otherEntries + ": the whole bucket is read again")
			if w.pause = min(2*w.pause, rereadMost); since > rereadMost {
				w.pause = rereadFirst
			}
			w.reread, odd = time.Now(), false
			w.endSession()
			w.progress.forget()
		}
	}
	w.before, w.events = l.check, w.progress.counted()
	if odd {
		return
	}
	if w.session == nil {
		w.begin(ctx, l)
		w.events = 0
	}
	w.progress.compare(l.check)
}

const otherEntries = "the index has other entries than the bucket"

// miscounts reports whether a complete index has a different number of rows than the stream has subjects.
func (w *watch) miscounts(l look) bool {
	f := w.index.figures()
	settled := !w.session.loading && w.progress.at() == l.last && w.before.last == l.last && f.revision <= l.last
	most := uint64(f.subjects + f.foreign)
	right := l.subjects == most || l.subjects > most && f.foreign == mostForeign || l.subjects < most && l.subjects+w.index.mayVanish(time.Now()) >= most
	if !settled || right {
		w.odd = 0
		w.progress.setOdd(false)
		return false
	}
	w.odd++
	return true
}

// ask starts a look at the leader, unless one is in flight.
func (w *watch) ask(ctx context.Context) {
	if w.asking {
		return
	}
	if w.e.link.jetStream() == nil {
		w.endSession()
		w.becomes(false, w.e.link.missing().Reason)
		return
	}
	w.asking = true
	w.keeper.raise()
	before, events := w.before, w.events
	go func() { w.looks <- w.look(ctx, before, events) }()
}

// admit returns why no request may be made; nil if requests may be made. After a reconnect, it waits
// until the bucket has been checked.
func (w *watch) admit(ctx context.Context) *upstream.Error {
	decided, failed := w.keeper.deciding()
	if decided == nil {
		return w.keeper.refuses()
	}
	if w.e.link.jetStream() == nil {
		return w.e.link.missing()
	}
	w.stir() // the bucket's fault may have been fixed
	if !failed {
		select {
		case <-decided:
		case <-ctx.Done():
		}
	}
	return w.keeper.refuses()
}

// barrier waits until the index has all that the stream held when barrier was called, according to its
// leader.
func (w *watch) barrier(ctx context.Context) error {
	first, err := w.lastRevision(ctx)
	if err != nil {
		return err
	}
	p := &w.progress
	var caught bool
	passed := p.await(ctx.Done(), func() bool {
		caught = p.reads() && p.caught >= first
		return caught || p.reads() && p.position >= first
	})
	if p.isOdd() {
		return &upstream.Error{Verdict: upstream.Transient, Reason: otherEntries}
	}
	if caught {
		return nil
	}
	second := first
	if passed {
		if second, err = w.lastRevision(ctx); err != nil {
			return err
		}
	}
	if passed && p.await(ctx.Done(), func() bool { return p.reads() && (p.caught >= first || p.position >= second) }) {
		return nil
	}
	return &upstream.Error{Verdict: upstream.Transient, Reason: "the watch of the bucket does not keep up with it"}
}

func (w *watch) lastRevision(ctx context.Context) (uint64, error) {
	if refused := w.admit(ctx); refused != nil {
		return 0, refused
	}
	var l look
	w.take(ctx, &l)
	if l.err != nil {
		return 0, l.err
	}
	if why := l.unusable(); why != "" {
		return 0, &upstream.Error{Verdict: upstream.Transient, Reason: why}
	}
	return l.last, nil
}
