package natskv

import (
	"sync"
	"time"
)

const (
	// checkEvery is the time between two comparisons with the stream.
	checkEvery = time.Second
	// checkTimeout bounds one comparison.
	checkTimeout = time.Second
	// soundFor is how long a successful comparison counts.
	soundFor = 3 * time.Second
	// quorumFor bounds how long ago the leader heard from a majority of the bucket's servers; a leader
	// that has not may have been deposed without knowing.
	quorumFor = 3 * time.Second
	// mostChecks bounds how many comparisons wait for the watch to catch up.
	mostChecks = 8
)

// check is one comparison with the stream.
type check struct {
	asked   time.Time     // before the request was sent
	age     time.Duration // how long before the answer the leader last heard from a majority
	last    uint64        // the stream's last revision
	reached time.Time     // when the watch reached last; zero until then
}

// progress tracks how far the watch has come, and up to which revision the index is complete. Its
// methods may be called concurrently.
//
// A position alone proves little. A version may have been replaced before the watch reached it, and the
// watch knows neither version until it reaches the later one. So the index is complete up to a position
// only in two cases: nothing followed the position when the watch was there (caught), or the watch has
// since passed the revision that the stream had at that time.
type progress struct {
	mu       sync.Mutex
	position uint64 // the highest revision that the watch has reached
	caught   uint64 // the index is complete up to this revision
	events   int    // events of the session
	live     bool   // a session delivers events
	loading  bool   // the session delivers the whole bucket first
	loadTo   uint64 // the stream's last revision before the session began
	began    time.Time
	checks   []check
	waiters  map[chan struct{}]bool // each is closed at the next step

	odd       bool      // the index has other entries than the bucket
	confirmed time.Time // when the last good check was requested
	asOf      time.Time
	sound     bool
	told      bool // sound was logged
	since     time.Time
	why       string
}

// begin starts a session, and returns the revision after which it resumes.
func (p *progress) begin(loading bool, last uint64) (after uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if loading {
		p.position, p.caught, p.loadTo = 0, 0, last
	}
	p.checks = nil
	p.loading, p.live, p.events, p.began = loading, false, 0, time.Now()
	return p.position
}

// opened records that the session delivers events from now on.
func (p *progress) opened() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live = true
	p.step()
}

// ended records that the session delivers no more events.
func (p *progress) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live = false
}

// event records that the index has applied a revision. pending is the number of messages that follow
// the revision, as far as the server knows. event reports whether [progress.promote] may succeed now.
func (p *progress) event(revision, pending uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
	if p.loading && p.position == 0 && revision < p.loadTo && pending != 0 {
		return false // last versions come in order, so more will follow
	}
	p.position = max(p.position, revision)
	if pending == 0 {
		p.caught = p.position
	}
	p.step()
	return p.promotable() >= 0
}

// nothingAfter records that the stream has removed all versions after existing, up to last.
func (p *progress) nothingAfter(existing, last uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live && existing <= p.position {
		p.position, p.caught = max(p.position, last), max(p.caught, last)
		p.step()
	}
}

// step notes which checks the watch has reached, and makes the waiters check again. The caller holds
// mu.
func (p *progress) step() {
	for i := range p.checks {
		if c := &p.checks[i]; c.reached.IsZero() && p.position >= c.last {
			c.reached = time.Now()
		}
	}
	for w := range p.waiters {
		close(w)
	}
	clear(p.waiters)
}

// await calls done, with mu held, until done returns true. If ended is closed first, it returns false.
func (p *progress) await(ended <-chan struct{}, done func() bool) bool {
	for {
		p.mu.Lock()
		if done() {
			p.mu.Unlock()
			return true
		}
		w := make(chan struct{})
		if p.waiters == nil {
			p.waiters = make(map[chan struct{}]bool)
		}
		p.waiters[w] = true
		p.mu.Unlock()
		select {
		case <-w:
		case <-ended:
			p.mu.Lock()
			delete(p.waiters, w)
			p.mu.Unlock()
			return false
		}
	}
}

// compare adds a comparison.
func (p *progress) compare(c check) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.checks) == mostChecks {
		p.checks = p.checks[1:]
	}
	p.checks = append(p.checks, c)
	p.step()
}

// promote records the latest check up to which the index is complete. It returns false if there is no
// such check.
func (p *progress) promote() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.promotable()
	if i < 0 {
		return false
	}
	c := p.checks[i]
	p.caught = max(p.caught, c.last)
	p.confirmed, p.asOf = c.asked, c.asked.Add(-c.age)
	p.checks = p.checks[i+1:]
	return true
}

// promotable returns the index of the check that promote would record; -1 if there is none. The caller
// holds mu.
func (p *progress) promotable() int {
	if !p.live {
		return -1
	}
	for i := len(p.checks) - 1; i >= 0; i-- {
		if c := p.checks[i]; p.caught >= c.last || p.passed(c, p.checks[i+1:]) {
			return i
		}
	}
	return -1
}

// passed reports whether the watch has reached the check, and then one that was requested after that.
func (p *progress) passed(c check, later []check) bool {
	for _, l := range later {
		if !c.reached.IsZero() && !l.reached.IsZero() && !l.asked.Before(c.reached) {
			return true
		}
	}
	return false
}

// asleep reports whether the watch is still behind an earlier comparison, and has had too few events
// since to be catching up.
func (p *progress) asleep(before check, events int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live && p.began.Before(before.asked) && p.position < before.last && p.events-events < busy
}

// busy is the number of events between two comparisons that shows that a watch is catching up.
const busy = 100

func (p *progress) counted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events
}

func (p *progress) at() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.position
}

func (p *progress) loaded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loading, p.odd = false, false
	p.step()
}

// reads reports whether a session delivers events and the whole bucket has been read. The caller holds
// mu.
func (p *progress) reads() bool { return p.live && !p.loading }

// hasToLoad reports whether the next session has to deliver the whole bucket.
func (p *progress) hasToLoad(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loading || p.confirmed.IsZero() || sinceThen(p.confirmed, now) > awayFor
}

// forget makes the next session deliver the whole bucket.
func (p *progress) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.position, p.caught, p.checks, p.confirmed = 0, 0, nil, time.Time{}
}

// stale reports whether the last good comparison is too old, and whether the view was sound then.
func (p *progress) stale(now time.Time) (stale, wasSound bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return sinceThen(p.confirmed, now) > soundFor, p.sound
}

// blame records why the view is not sound, if it is not.
func (p *progress) blame(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.sound {
		p.why = why
	}
}

// state returns when the view became sound or unsound, and why it is unsound.
func (p *progress) state() (since time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since, p.why
}

func (p *progress) setOdd(odd bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.odd = odd
}

func (p *progress) isOdd() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.odd
}

// becomes records whether the view is sound. It reports whether to log this: on a change, and once for
// a view that did not become sound in time.
func (p *progress) becomes(sound bool, why string) (logs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.sound != sound
	logs = changed || !p.told && time.Since(p.since) > soundFor
	if changed {
		p.since = time.Now()
		if sound {
			p.since = p.asOf // everything that upstream held then has been reported
		}
	}
	p.sound, p.why, p.told = sound, why, p.told || logs
	return logs
}

// isSound returns the results of [Engine.CaughtUp], but ignores the connection and the bucket.
func (p *progress) isSound(now time.Time) (asOf, since time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asOf, p.since, p.sound && sinceThen(p.confirmed, now) <= soundFor
}

// sinceThen returns the time since then by the clock that shows more: the monotonic clock stops while a
// machine sleeps, and the wall clock may be set back.
func sinceThen(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}
