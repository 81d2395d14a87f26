package fence

import (
	"math"
	"sync"
	"time"

	"github.com/botwired/botwired/upstream"
)

const (
	// dateTick is how far upstream's clock may be ahead of the Date of its answer, in seconds. The
	// header leaves out up to a second. A server may also make the header once a second and send it
	// with all answers until the next (uvicorn, BotWire's own, does).
	dateTick = 2.25
	// drift is how fast the two clocks may move apart, in seconds per second: both are quartz, at most
	// some 50 ppm wrong each, and slewed by NTP now and then.
	drift = 200e-6
	// clockStep is the smallest change of the wall clock against the monotonic one that counts as a
	// step, in seconds. Slewing moves both.
	clockStep = 0.01
	// mostEras bounds how many settings of the clock are remembered.
	mostEras = 8
	// calibrateEvery is how long the updated_at of one of this host's writes is good enough.
	calibrateEvery = 10 * time.Minute
)

// Span bounds a value from both sides. The zero value is exactly 0.
type Span struct{ Least, Most float64 }

var anything = Span{math.Inf(-1), math.Inf(1)}

func (s Span) both(other Span) Span {
	return Span{max(s.Least, other.Least), min(s.Most, other.Most)}
}

func (s Span) wider(by float64) Span { return Span{s.Least - by, s.Most + by} }

func (s Span) empty() bool { return s.Least > s.Most }

// Offset estimates from upstream's answers how far upstream's clock is ahead of this host's wall clock.
// An answer with a Date was made between the sending of the request and the arrival of the answer. A
// write of this host got its updated_at between the same moments of its own request. Each of them
// bounds the offset from both sides. The estimate is the intersection of all bounds, widened by the
// drift of the clocks. If bounds contradict each other, a clock was set, or a Date was wrong: the
// estimate restarts from the latest, so its error is never larger than that of the last answer.
//
// A write has the time that the wall clock showed when it was made. If the wall clock is set later,
// Offset remembers its estimate for the earlier writes. Its methods may be called concurrently.
type Offset struct {
	epoch time.Time // origin of the monotonic times

	mu     sync.Mutex
	dates  estimate
	writes estimate // by updated_at: the authoritative clock
	last   moment   // the latest one seen by look
	behind float64  // wall minus monotonic time since the wall clock was last set
	newest uint64   // this host's latest write
	eras   []era    // before the wall clock was set, oldest first
}

// moment is a time on both clocks of this host, in seconds.
type moment struct{ wall, mono float64 }

// era is a period between two settings of the wall clock.
type era struct {
	upTo   uint64 // the last write made in it
	offset Span
}

// estimate is the intersection of the samples of one kind.
type estimate struct {
	span  Span
	at    float64 // when span was valid, by the monotonic clock
	began float64 // the first sample since the last restart
	known bool
}

// NewOffset returns an estimate without any samples.
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

// Answered adds an answer from upstream, with the times when its request was sent and it arrived, both
// as returned by [time.Now]. date is zero if the answer has no Date of its own.
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

// Showed adds the updated_at that upstream has given a write of this host, with the times when the
// write's request was sent and answered.
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

// WantsWrite reports whether the updated_at of another write would improve the estimate much: the last
// one is old, or is from before the Dates began to contradict it.
func (o *Offset) WantsWrite() bool {
	now := o.moment(time.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look(now)
	contradicted := o.dates.began > o.writes.at && o.dates.as(now.mono).both(o.writes.as(now.mono)).empty()
	return !o.writes.known || contradicted || now.mono-o.writes.at > calibrateEvery.Seconds()
}

// Wrote records that this host has just made the write seq.
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

// At returns the offset at the time when this host made the write seq: minus to plus infinity if
// unknown.
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

// UpstreamTime bounds upstream's clock at a moment of this host.
func (o *Offset) UpstreamTime(t time.Time) Span {
	m := o.moment(t)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.upstreamAt(m)
}

// upstreamAt covers the time that the wall clock showed at the moment, and the time that it would have
// shown as it runs now. The clock was set since, or stood still with the machine, and it is unknown
// which.
func (o *Offset) upstreamAt(m moment) Span {
	s, now := o.present(m.mono), m.mono+o.behind
	return Span{min(m.wall, now) + s.Least, max(m.wall, now) + s.Most}
}

// present returns the estimate at a monotonic time. If Dates and times of writes contradict each other
// for long, the Dates come from somewhere else: the writes count. If the Dates have restarted since,
// upstream's clock was set: the Dates count.
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

// look detects that the wall clock was set, or the machine suspended, since the last call. The estimate
// so far then applies only to the earlier writes.
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

// inForce reports whether the moment's wall clock agrees with the present setting of the clock.
func (o *Offset) inForce(m moment) bool {
	return math.Abs(m.wall-m.mono-o.behind) <= clockStep
}

// narrow adds a sample.
func (e *estimate) narrow(sample Span, mono float64) {
	span := e.as(mono).both(sample)
	if !e.known || span.empty() { // guard 19.21
		*e = estimate{span: sample, at: mono, began: mono, known: true}
		return
	}
	e.span, e.at = span, max(e.at, mono)
}

// as returns the estimate at a monotonic time.
func (e *estimate) as(mono float64) Span {
	if !e.known {
		return anything
	}
	return e.span.wider(math.Abs(mono-e.at) * drift)
}
