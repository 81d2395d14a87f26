package fence

import (
	"math"
	"sync"
	"time"

	"github.com/botwired/botwired/upstream"
)

const (
	// dateTick is how far upstream's clock may be ahead of the Date of its answer, in seconds: the
	// second that the header leaves out, and another one, as a server may make the header once a
	// second and send it with all answers until it makes the next (uvicorn, BotWire's own, does).
	dateTick = 2.25
	// drift is how far the two clocks may move apart, in seconds a second: both quartz, at most
	// some 50 ppm wrong each, and slewed by NTP now and then.
	drift = 200e-6
	// clockStep is the least change of the wall clock against the monotonic one that counts as a
	// step, in seconds. Slewing moves both.
	clockStep = 0.01
	// mostEras bounds how many settings of the clock are remembered.
	mostEras = 8
	// calibrateEvery is how long a time of upstream's that it has put on a write of this host's own
	// stands for more of them.
	calibrateEvery = 10 * time.Minute
)

// Span bounds a figure from both sides. The zero value is exactly 0.
type Span struct{ Least, Most float64 }

var anything = Span{math.Inf(-1), math.Inf(1)}

func (s Span) both(other Span) Span {
	return Span{max(s.Least, other.Least), min(s.Most, other.Most)}
}

func (s Span) wider(by float64) Span { return Span{s.Least - by, s.Most + by} }

func (s Span) empty() bool { return s.Least > s.Most }

// Offset estimates by how much upstream's clock is ahead of this host's wall clock, from
// upstream's answers. An answer with a Date was made between the moments at which the request
// left and the answer arrived; a write of this host's got its updated_at between the same
// moments of its own request. Each of them bounds the offset from both sides. The estimate is
// what all of them allow, and widens by the drift of the clocks. Where they contradict each
// other, a clock was set, or a Date was wrong: the estimate begins anew with the latest, so that it
// never errs by more than the last answer does.
//
// A write has the time that the wall clock showed when it was made. If the wall clock is set
// later, Offset remembers what it estimated for the writes from before. Its methods may be
// called concurrently. A nil Offset knows nothing.
type Offset struct {
	epoch time.Time // whence the monotonic times count

	mu     sync.Mutex
	dates  estimate
	writes estimate // by updated_at: the clock that counts
	last   moment   // the latest one that was looked at
	behind float64  // by how much the monotonic clock has been behind the wall clock since the latter was set
	newest uint64   // the latest write of this host's
	eras   []era    // before the wall clock was set, the oldest first
}

// moment is a time on both clocks of this host, in seconds.
type moment struct{ wall, mono float64 }

// era is a time in which the wall clock was not set.
type era struct {
	upTo   uint64 // the last write that was made in it
	offset Span
}

// estimate is what samples of one kind allow together.
type estimate struct {
	span  Span
	at    float64 // as of then, by the monotonic clock
	began float64 // the first sample since it last began anew
	known bool
}

// NewOffset returns an estimate that knows nothing.
func NewOffset() *Offset {
	now := time.Now()
	o := newOffset(moment{wall: upstream.Unix(now)})
	o.epoch = now
	return o
}

func newOffset(now moment) *Offset {
	return &Offset{last: now, behind: now.wall - now.mono}
}

func (o *Offset) moment(t time.Time) moment {
	return moment{upstream.Unix(t), t.Sub(o.epoch).Seconds()}
}

// Answered takes in an answer of upstream's, and when its request left and it arrived, both
// as [time.Now] gave them. date is zero if the answer has none that is its own.
func (o *Offset) Answered(date, sent, received time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered(date, o.moment(sent), o.moment(received))
}

func (o *Offset) answered(date time.Time, sent, received moment) {
	o.look(received)
	if date.IsZero() || !o.inForce(sent) {
		return
	}
	o.dates.narrow(Span{upstream.Unix(date) - received.wall, upstream.Unix(date) + dateTick - sent.wall}, received.mono)
}

// Showed takes in the updated_at that upstream has put on a write of this host's, and when the
// request of the write left and was answered.
func (o *Offset) Showed(updatedAt float64, sent, received time.Time) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.showed(updatedAt, o.moment(sent), o.moment(received), o.moment(now))
}

func (o *Offset) showed(updatedAt float64, sent, received, now moment) {
	o.look(now)
	if !o.inForce(sent) || !o.inForce(received) {
		return
	}
	span := Span{updatedAt - received.wall, updatedAt - sent.wall}
	o.writes.narrow(span.wider((now.mono-sent.mono)*drift), now.mono)
}

// WantsWrite reports whether the updated_at of one more write would make the estimate much
// better: the last one is old, or from before the Dates began to contradict it.
func (o *Offset) WantsWrite() bool {
	now := o.moment(time.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look(now)
	contradicted := o.dates.began > o.writes.at && o.dates.as(now.mono).both(o.writes.as(now.mono)).empty()
	return !o.writes.known || contradicted || now.mono-o.writes.at > calibrateEvery.Seconds()
}

// Wrote takes in that a write of this host's was made.
func (o *Offset) Wrote(seq uint64) {
	now := o.moment(time.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wroteAt(seq, now)
}

func (o *Offset) wroteAt(seq uint64, now moment) {
	o.look(now)
	o.newest = max(o.newest, seq)
}

// At returns the offset that was in force when a write of this host's was made: between minus and
// plus infinity if nothing is known.
func (o *Offset) At(seq uint64) Span {
	now := o.moment(time.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.atOf(seq, now)
}

func (o *Offset) atOf(seq uint64, now moment) Span {
	o.look(now)
	for _, e := range o.eras {
		if seq <= e.upTo { // guard 19.20
			return e.offset
		}
	}
	return o.present(now.mono)
}

// UpstreamTime bounds upstream's clock at a moment of this host's.
func (o *Offset) UpstreamTime(t time.Time) Span {
	m := o.moment(t)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.upstreamAt(m)
}

// upstreamAt goes by what the wall clock showed at the moment, and by what it would have shown as it
// goes now: it was set since, or stood still with the machine, and nobody knows which.
func (o *Offset) upstreamAt(m moment) Span {
	s, now := o.present(m.mono), m.mono+o.behind
	return Span{min(m.wall, now) + s.Least, max(m.wall, now) + s.Most}
}

// present is the estimate as of a monotonic time. Where Dates and times of writes contradict each
// other for long, the Dates are somebody else's: the writes count. If the Dates have begun anew
// since, upstream's clock was set: they count.
func (o *Offset) present(mono float64) Span {
	dates, writes := o.dates.as(mono), o.writes.as(mono)
	both := dates.both(writes)
	switch {
	case !both.empty():
		return both
	case o.dates.began > o.writes.at:
		return dates
	}
	return writes
}

// look notices that the wall clock was set, or the machine suspended, since it was last called.
// What was known of the offset then holds for the times before only.
func (o *Offset) look(now moment) {
	last := o.last
	if now.mono < last.mono {
		return
	}
	if o.last = now; o.inForce(now) {
		return
	}
	o.eras = append(o.eras, era{o.newest, o.present(last.mono)})
	o.eras = o.eras[max(0, len(o.eras)-mostEras):]
	o.behind = now.wall - now.mono
	o.dates, o.writes = estimate{}, estimate{} // guard 19.19
}

// inForce reports whether a moment was read off the wall clock as it goes now.
func (o *Offset) inForce(m moment) bool {
	return math.Abs(m.wall-m.mono-o.behind) <= clockStep
}

// narrow takes in one more sample.
func (e *estimate) narrow(sample Span, mono float64) {
	span := e.as(mono).both(sample)
	if !e.known || span.empty() { // guard 19.21
		*e = estimate{span: sample, at: mono, began: mono, known: true}
		return
	}
	e.span, e.at = span, max(e.at, mono)
}

// as is the estimate as of a monotonic time.
func (e *estimate) as(mono float64) Span {
	if !e.known {
		return anything
	}
	return e.span.wider(math.Abs(mono-e.at) * drift)
}
