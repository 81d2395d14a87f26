package surface

import (
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/proxy/memory"
)

// measures counts and times the requests of the memory API.
type measures struct {
	times    *metrics.Times
	series   [memory.Verbs][memory.Outcomes]atomic.Pointer[metrics.Series] // those of times that were needed
	imported atomic.Int64                                                  // writes, which are no requests of their own
}

// observe notes how long a call took. A call without a verb is none of the memory API's.
func (m *measures) observe(v memory.Verb, o memory.Outcome, took time.Duration) {
	if v == memory.NoVerb {
		return
	}
	at := &m.series[v][o]
	series := at.Load()
	if series == nil {
		series = m.times.Of(v.String(), o.String())
		at.Store(series)
	}
	series.Observe(took)
}

// measured calls each with the series of a verb and of the outcomes from first to end, without end.
func (m *measures) measured(v memory.Verb, first, end memory.Outcome, each func(*metrics.Series)) {
	for o := first; o < end; o++ {
		if series := m.series[v][o].Load(); series != nil {
			each(series)
		}
	}
}

// count counts the requests of a verb that had one of the outcomes from first to end, without end.
func (m *measures) count(v memory.Verb, first, end memory.Outcome) (n int64) {
	m.measured(v, first, end, func(s *metrics.Series) { n += s.Count() })
	return n
}

// writes counts the writes that had one of the outcomes from first to end, without end.
func (m *measures) writes(first, end memory.Outcome) int64 {
	return m.count(memory.PutEntry, first, end) + m.count(memory.DeleteEntry, first, end)
}

// distribution returns how long the same requests took.
func (m *measures) distribution(v memory.Verb, first, end memory.Outcome) (d metrics.Distribution) {
	m.measured(v, first, end, func(s *metrics.Series) { d = d.Plus(s.Distribution()) })
	return d
}
