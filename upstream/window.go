package upstream

import (
	"math"
	"slices"
	"time"
)

// A window holds how many requests may be under way upstream. It grows by one a second while
// requests go well, and shrinks when upstream pushes back: when it throttles namespaces, is
// overloaded or does not answer, or when requests take longer the more of them there are.
//
// None of these signs is sure. Upstream may fail for reasons of its own, and a round trip
// may be long because the network is, or the values. A smaller window therefore has to
// help. If upstream fails as often as before, or takes as long, the window is what it was.
const (
	// judgeEvery is how often the window grows.
	judgeEvery = time.Second
	// trusted is how long the window relies on what it has found out: that failures do not
	// depend on it, or how long requests take that do not wait for each other.
	trusted = time.Minute
	// leastEnded is how many requests have to end before failures among them mean something.
	// Where fewer end within judgeEvery, upstream is not crowded.
	leastEnded = 8
	// pushedNamespaces is the share of the namespaces, 1 in so many, on which upstream has to
	// push back. Fewer may be sick themselves.
	pushedNamespaces = 4
	// nearlyAll is the share of the requests, all but 1 in so many, that a single such
	// namespace has to make.
	nearlyAll = 8
	// leastOfRefused is the least part of a window that one failure leaves.
	leastOfRefused = 0.5
	// A window that is muchSmaller, as a share of what it was, helps if of leastToCompare
	// requests upstream refuses less than stillRefused of the share that it refused before.
	muchSmaller    = 0.25
	leastToCompare = 128
	stillRefused   = 0.65
	// leastTrips is how many round trips show how long requests take, and mostTrips bounds
	// those that are looked at. The longest of them, 1 in so many, do not count.
	leastTrips   = 64
	mostTrips    = 512
	longestTrips = 8
	// slower is how much longer requests take that wait for each other, and ofSlower what is
	// then left of the window.
	slower   = 1.25
	ofSlower = 0.75
)

// The reasons for a window that is smaller than upstream.concurrency, for people.
const (
	reasonRefused = "upstream fails more often, or throttles more namespaces, the more requests are under way"
	reasonSlower  = "upstream takes longer the more requests are under way"
)

// Concurrency is how many requests may be under way upstream.
type Concurrency struct {
	Limit  int    // upstream.concurrency
	Now    int    // as upstream takes them at present
	Reason string // why that is less, for people; empty if upstream does not push back
}

// window is not safe for concurrent use.
type window struct {
	most    int
	size    float64
	changed time.Time       // requests that were sent before say nothing of its present size
	failing map[origin]bool // where upstream has pushed back, and nothing has gone well since
	round   round
	trips   []time.Duration // of writes that were sent while the window was full
	trial   *trial          // of a smaller window
	reason  string

	ignoresUntil time.Time     // failures do not depend on the window
	unhurried    time.Duration // how long requests take that do not wait for each other
	knownUntil   time.Time     // that that is so
}

// origin is where requests come from.
type origin struct {
	part      int
	namespace string
}

func (r *slot) origin() origin { return origin{r.lane.part(), r.namespace} }

// trial is a window that has just become smaller, and what it was before.
type trial struct {
	size     float64
	reason   string
	outcomes               // of the requests; zero if that was not why
	took     time.Duration // likewise
}

// outcomes are how many requests have ended, and how many upstream has refused of them.
type outcomes struct{ ended, refused int }

func (o *outcomes) share() float64 { return float64(o.refused) / float64(o.ended) }

// round is the requests that have ended lately.
type round struct {
	outcomes
	began      time.Time
	well       int
	underWay   int // the most at a time
	namespaces map[string]*tally
	trips      int // the window's, when it began
}

// tally counts those of one namespace.
type tally struct {
	ended     int
	refused   bool
	throttled bool // and nothing worse
}

func newWindow(most int) *window {
	return &window{most: most, size: float64(most), failing: make(map[origin]bool)}
}

// slots is the window in whole requests.
func (w *window) slots() int { return max(1, int(math.Round(w.size))) }

// ended takes in how a request has ended.
func (w *window) ended(r *slot, failed *Error, now time.Time) {
	pushed := failed.pushesBack()
	switch {
	case pushed:
		remember(w.failing, r.origin(), true)
	case failed.says():
		delete(w.failing, r.origin())
	default:
		return
	}
	// One failure of a namespace is a sign. Those that follow are the namespace's own.
	if r.sent.Before(w.changed) || pushed && r.failing {
		return
	}
	if w.round.ended == 0 {
		w.round = round{began: now, namespaces: make(map[string]*tally), trips: len(w.trips)}
	}
	w.round.count(r, failed)
	if r.underWay >= soloPart(w.slots()) && r.lane == writeLane && failed == nil && len(w.trips) < mostTrips {
		w.trips = append(w.trips, now.Sub(r.sent))
	}
	switch {
	case w.pushedBack(now):
		w.refused(now)
	case now.Sub(w.round.began) >= judgeEvery:
		w.calm(now)
	}
}

// pushesBack reports whether a failure may mean that upstream has too much to do.
func (e *Error) pushesBack() bool {
	return e != nil && (e.Verdict == Throttled || e.Verdict == Unanswered || e.Overloaded)
}

func (r *round) count(of *slot, failed *Error) {
	t := r.namespaces[of.namespace]
	if t == nil {
		t = &tally{throttled: true}
		r.namespaces[of.namespace] = t
	}
	r.underWay = max(r.underWay, of.underWay)
	r.ended++
	t.ended++
	if !failed.pushesBack() {
		r.well++
		return
	}
	r.refused++
	t.refused = true
	t.throttled = t.throttled && failed.Verdict == Throttled
}

// pushedBack reports whether upstream pushes back on so many requests and namespaces that it
// is not for reasons of their own. A single namespace has to make nearly all requests, and
// to be throttled is its own affair.
func (w *window) pushedBack(now time.Time) bool {
	r := &w.round
	if r.refused == 0 || r.ended < max(leastEnded, w.slots()*3/4) || now.Before(w.ignoresUntil) {
		return false
	}
	refused := 0
	var last *tally
	for _, t := range r.namespaces {
		if t.refused {
			refused++
			last = t
		}
	}
	if refused == 1 {
		return !last.throttled && last.ended*nearlyAll >= r.ended*(nearlyAll-1)
	}
	return refused*pushedNamespaces >= len(r.namespaces)
}

// refused makes the window smaller by the share of the requests that upstream has refused. If
// upstream refuses as many in a much smaller window, that has nothing to do with it.
func (w *window) refused(now time.Time) {
	r, t := &w.round, w.trial
	if t == nil || t.refused == 0 {
		t = &trial{size: w.size, reason: w.reason}
	}
	if t.refused > 0 && w.size <= max(1, t.size*muchSmaller) {
		switch {
		case r.ended < leastToCompare:
			return
		case r.share() > t.share()*stillRefused:
			w.trial, w.reason, w.ignoresUntil = nil, "", now.Add(trusted)
			w.resize(float64(w.most), now)
			return
		}
		t = &trial{size: w.size, reason: w.reason}
	}
	t.ended += r.ended
	t.refused += r.refused
	// After an outage, fewer requests are under way than the window has room for.
	size := min(w.size, float64(r.underWay)) * max(leastOfRefused, 1-r.share())
	w.try(t, min(size, float64(w.slots()-1)), now)
	w.reason = reasonRefused
}

// calm judges some time in which upstream has not pushed back.
func (w *window) calm(now time.Time) {
	// After a pause, nobody knows how full the window was.
	full := len(w.trips) > w.round.trips && now.Sub(w.round.began) < 2*judgeEvery
	well, refused := w.round.well > 0, w.round.refused > 0
	w.round = round{}
	took, t := w.took(full), w.trial
	if t != nil && t.took > 0 {
		switch {
		case took == 0 && full:
			return // too few yet
		case took == 0 || !t.shortened(took, w.size):
			w.restore(now)
			if took > 0 {
				w.unhurried, w.knownUntil = took, now.Add(trusted)
			}
			return
		}
		w.reason = reasonSlower
	}
	if t != nil && (t.refused == 0 || !refused) {
		w.trial = nil
	}
	switch {
	case took > 0 && w.slots() > 1 && (now.After(w.knownUntil) || float64(took) > slower*float64(w.unhurried)):
		w.try(&trial{size: w.size, took: took, reason: w.reason}, min(w.size*ofSlower, float64(w.slots()-1)), now)
	case well && w.size < float64(w.most):
		w.size = min(w.size+1, float64(w.most))
		if w.slots() == w.most {
			w.reason = ""
		}
	}
}

// shortened reports whether the round trips are shorter in a smaller window: at least half
// as much as the window is.
func (t *trial) shortened(took time.Duration, size float64) bool {
	return float64(took)/float64(t.took) <= (1+size/t.size)/2
}

// took is how long a round trip has taken of late in a full window, on average: where requests
// wait for each other, the median may not show it. It is 0 if there were too few.
func (w *window) took(full bool) (took time.Duration) {
	if full && len(w.trips) < leastTrips {
		return 0
	}
	if full {
		slices.Sort(w.trips)
		usual := w.trips[:len(w.trips)-len(w.trips)/longestTrips]
		for _, trip := range usual {
			took += trip / time.Duration(len(usual))
		}
	}
	w.trips = w.trips[:0]
	return took
}

// try makes the window smaller.
func (w *window) try(t *trial, size float64, now time.Time) {
	w.trial = t
	w.resize(max(1, size), now)
}

// restore ends a trial that did not help.
func (w *window) restore(now time.Time) {
	t := w.trial
	w.trial, w.reason = nil, t.reason
	w.resize(t.size, now)
}

func (w *window) resize(size float64, now time.Time) {
	w.size, w.changed, w.round, w.trips = size, now, round{}, w.trips[:0]
}
