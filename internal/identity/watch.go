// Package identity notices that a daemon may no longer be the only host with its data: its data
// directory is a copy or an old backup, or its machine or process was stopped while others went on
// writing (contract 19).
//
// At the daemon's start, [Open] compares the data directory's place with the one that the last start
// recorded in a file there: the ids of the machine and the boot, and the files and their device. The
// file records its own inode and the time at which it was written. A copy differs in one of them, even
// if the copying program preserves times.
//
// While the daemon runs, [Watch.Stands] and [Watch.Check] compare the clocks before each use of a copy,
// and [Watch.Run] compares them every second. If the wall clock has moved differently from the
// monotonic one, the machine was suspended or cloned, or its clock was set. If there was no reading for
// seconds, the process was stopped.
//
// Each finding is a [Doubt]. A doubt refuses nothing. It makes the daemon careful: a copy confirmed
// earlier is not fresh until upstream is asked again, and pending writes are compared with upstream
// before they are sent. Both effects survive a restart. On a platform that reports less, fewer cases
// are noticed.
//
// Three cases go unnoticed. A file system that its own snapshot rolls back in place, within one boot,
// looks unchanged. So does a machine that is cloned while it runs, if its clocks do not show the time
// that passed. And the original does not notice that it was copied.
package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Doubt is a reason to be careful, at a time.
type Doubt struct {
	Reason Reason
	Detail string // for people
	At     time.Time
}

// Options configures a watch.
type Options struct {
	// Dir is the data directory. The caller has locked it.
	Dir string
	// Files names files in Dir that are never replaced as long as the journal exists.
	Files []string
	// Seq returns the journal's highest sequence number.
	Seq func() uint64
	// Unused reports whether the journal has never held anything.
	Unused func() (bool, error)
	// InFlight is how long a request may be in flight upstream. The answer to a request sent before a
	// doubt is no newer than the doubt.
	InFlight time.Duration
	// OnDoubt, if not nil, is called at every doubt, before anybody can use what is known, and at the start if an
	// earlier process left its fence unfinished. All pending writes must then be compared with upstream
	// before they are sent. It must not call the watch.
	OnDoubt func()
	// Logger must not be nil.
	Logger *slog.Logger

	place func() Place
	clock func() reading
	boot  func() (time.Duration, bool)
}

func (o Options) withDefaults() Options {
	if o.place == nil {
		o.place = places{o.Dir, append([]string{directory}, o.Files...)}.now
	}
	if o.clock == nil {
		o.clock = clocks{time.Now()}.now
	}
	if o.boot == nil {
		o.boot = sinceBoot
	}
	if o.OnDoubt == nil {
		o.OnDoubt = func() {}
	}
	return o
}

// Watch is a daemon's view of its own identity. It is safe for concurrent use.
type Watch struct {
	opts    Options
	barrier atomic.Int64            // Unix microseconds
	epoch   atomic.Uint64           // the number of doubts
	last    atomic.Pointer[reading] // the last reading of the clocks
	dirty   atomic.Bool             // the file is out of date
	wake    chan struct{}           // holds one token when there is something to save

	// mu guards the fields below. A doubt is raised under it, so a caller that finds the clocks right
	// after a doubt also finds the barrier.
	mu      sync.Mutex
	place   Place
	start   Kind
	doubts  map[Reason]int
	newest  *Doubt
	recheck time.Duration // monotonic: when requests from before the newest doubt have ended; 0 if they have
	fence   bool
	gone    bool // the file is no longer ours

	// saving guards the file and the fields below.
	saving  sync.Mutex
	token   string
	unsaved bool // the log already says that the file cannot be written
}

// State describes a daemon's identity.
type State struct {
	Start  Kind
	Doubts map[Reason]int // since the start, including those of the start itself
	Newest *Doubt         // nil if there was none
}

// Open compares the place with the recorded one, and records the current one. It starts no background
// work, and refuses nothing: a file that cannot be read or written only makes the daemon careful, now
// or at its next start.
func Open(opts Options) *Watch {
	opts = opts.withDefaults()
	w := &Watch{
		opts: opts, wake: make(chan struct{}, 1), token: rand.Text(), place: opts.place(), doubts: make(map[Reason]int),
	}
	now := w.look()
	w.last.Store(&now)
	past, own, err := read(opts.Dir)
	var why string
	switch {
	case err == nil:
		w.start, why = past.compare(w.place, own, opts.Seq())
		w.barrier.Store(past.Barrier)
		w.fence = past.Fence
	case isMissing(err) && w.unused():
		w.start = New
	case isMissing(err):
		w.start, why = Unknown, "it has no file "+FileName
	default:
		w.start, why = Unknown, err.Error()
	}
	if w.start != Same && w.start != New {
		w.mu.Lock()
		w.raise(Reason(w.start), why, now.wall, w.newestTime(now.wall))
		w.mu.Unlock()
	} else if w.fence {
		opts.OnDoubt()
	}
	w.save()
	return w
}

func (w *Watch) unused() bool {
	unused, err := w.opts.Unused()
	return unused && err == nil
}

// look reads all clocks.
func (w *Watch) look() reading {
	now := w.opts.clock()
	if boot, ok := w.opts.boot(); ok {
		now.boot = boot
	}
	return now
}

// maxAhead limits how far a barrier may lie in the future: until the barrier, every read asks upstream.
const maxAhead = time.Hour

// newestTime returns the latest time at which anything in the directory can have been confirmed,
// according to its files: they may be from a machine whose clock is ahead.
func (w *Watch) newestTime(now time.Time) time.Time {
	newest := now
	for name, f := range w.place.Files {
		if name != directory && f.modified.After(newest) {
			newest = f.modified.Add(stampSlack)
		}
	}
	return newest
}

// Stands reports whether a copy that upstream confirmed at confirmedAt may still count as fresh: there
// was no doubt after confirmedAt. It checks the clocks first.
func (w *Watch) Stands(confirmedAt time.Time) bool {
	w.Check()
	return w.stands(confirmedAt)
}

func (w *Watch) stands(confirmedAt time.Time) bool {
	barrier := w.barrier.Load()
	return barrier == 0 || confirmedAt.UnixMicro() >= barrier
}

// Epoch checks the clocks, and returns a number that changes with every doubt. The answer to a request
// from an earlier epoch is no newer than the doubt.
func (w *Watch) Epoch() uint64 {
	w.Check()
	return w.epoch.Load()
}

// Check reads the clocks. If the daemon was stopped, or its clock was set, Check raises a doubt before
// it returns.
func (w *Watch) Check() {
	now := w.opts.clock()
	if reason, _ := now.since(*w.last.Load()); reason != "" { // guard 19.25
		w.compareClocks(false)
	}
}

// CheckDurably checks the clocks for a caller that is about to send a write. It returns when all doubts
// are on the disk too, if the disk can be written.
func (w *Watch) CheckDurably() {
	w.Check()
	if w.dirty.Load() { // guard 19.27
		w.save()
	}
}

// compareClocks compares the clocks with the last reading, under the lock. A regular call also compares
// the boot clock.
func (w *Watch) compareClocks(regular bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	past := *w.last.Load()
	now := w.opts.clock()
	if regular {
		now = w.look()
	}
	reason, by := now.since(past)
	// guard 19.26
	if reason == "" && !regular {
		return // another caller has already raised the doubt
	}
	if !regular {
		now = w.look()
	}
	if reason != "" {
		before := past.wall.Add(now.mono - past.mono) // the time if nobody had set the clock
		w.raise(reason, reason.text(by), now.wall, before)
		w.recheck = now.mono + w.opts.InFlight // guard 19.28
	} else if w.recheck != 0 && now.mono >= w.recheck {
		w.recheck = 0
		w.setBarrier(now.wall)
	}
	w.last.Store(&now) // last: callers who find no reason for a doubt rely on the fields set above
}

// raise raises a doubt. latest is the latest time that an earlier confirmation can have, if that is
// after now, by at most maxAhead. The caller holds mu.
func (w *Watch) raise(reason Reason, detail string, now, latest time.Time) {
	if latest.Before(now) || latest.Sub(now) > maxAhead {
		latest = now
	}
	w.setBarrier(latest)
	w.epoch.Add(1)
	w.fence = true
	w.doubts[reason]++
	w.newest = &Doubt{Reason: reason, Detail: detail, At: now}
	w.opts.OnDoubt()
	level := slog.LevelInfo
	if reason == Reason(Copied) || reason == Reason(Restored) || reason == Moved {
		level = slog.LevelWarn
	}
	w.opts.Logger.Log(context.Background(), level,
		"what is known may be old: pending writes are compared with upstream before they are sent, and what was read before is asked again",
		"reason", string(reason), "because", detail, "data_dir", w.opts.Dir)
}

// setBarrier ends the freshness of everything confirmed before a time. It drops a barrier from before
// the clock was set back, which may lie far in the future: copies confirmed by that clock count as very
// old. The caller holds mu.
func (w *Watch) setBarrier(at time.Time) {
	past := w.barrier.Load()
	if past > at.Add(maxAhead).UnixMicro() {
		past = 0
	}
	w.barrier.Store(max(past, at.UnixMicro()+1))
	w.dirty.Store(true)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// placeEvery is the number of clock readings per check of the place.
const placeEvery = 10

// Run checks the clocks and the place until ctx ends, and saves changes.
func (w *Watch) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
		case <-ticker.C:
			w.compareClocks(true)
			if n%placeEvery == 0 {
				w.comparePlaces()
			}
		}
		if w.dirty.Load() {
			w.save()
		}
	}
}

// comparePlaces raises a doubt if the process is on another machine, or another directory has taken the
// data directory's name.
func (w *Watch) comparePlaces() {
	now := w.opts.place()
	past, _, err := read(w.opts.Dir)
	w.mu.Lock()
	defer w.mu.Unlock()
	var why string
	switch {
	case now.Machine != "" && w.place.Machine != "" && w.place.Machine != now.Machine:
		why, w.place.Machine = "the machine has another id", now.Machine
	case now.Boot != "" && w.place.Boot != "" && w.place.Boot != now.Boot:
		why, w.place.Boot = "the process runs on another machine, or in another boot", now.Boot
	case !w.gone && now.Files[directory].otherThan(w.place.Files[directory], true):
		why, w.gone = "another directory has taken the place of the data directory", true
	case !w.gone && err == nil && past.Token != w.token:
		why, w.gone = "another program has written the file "+FileName, true
	}
	if why != "" {
		at := w.opts.clock().wall
		w.raise(Moved, why, at, at)
	}
}

// save writes the file, or else removes it: a start without the file is careful, and an old one knows no
// doubt. A failure is logged once, and the next doubt tries again. If another program has put a file there,
// save leaves it: the next start must see it.
func (w *Watch) save() {
	w.saving.Lock()
	defer w.saving.Unlock()
	seq := w.opts.Seq()
	w.mu.Lock()
	w.dirty.Store(false)
	r := &record{Token: w.token, Place: w.place, Seq: seq, Barrier: w.barrier.Load(), Fence: w.fence}
	gone := w.gone
	w.mu.Unlock()
	if gone {
		return
	}
	err := r.write(w.opts.Dir)
	if err != nil {
		err = errors.Join(err, remove(w.opts.Dir)) // guard 19.33
	}
	if err != nil && !w.unsaved {
		w.opts.Logger.Warn("the data directory's identity cannot be recorded: the next start compares all pending writes with upstream",
			"file", filepath.Join(w.opts.Dir, FileName), "error", err)
	}
	w.unsaved = err != nil
}

// Close records the state in which the daemon leaves the directory. settled means that nothing is
// pending, so no write from before the last doubt is left.
func (w *Watch) Close(settled bool) {
	w.mu.Lock()
	w.fence = w.fence && !settled
	w.mu.Unlock()
	w.save()
}

// State returns the current state.
func (w *Watch) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return State{Start: w.start, Doubts: maps.Clone(w.doubts), Newest: w.newest}
}
