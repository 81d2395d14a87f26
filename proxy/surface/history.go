package surface

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/proxy/memory"
)

const (
	// historyStep and historyLength make an hour of points.
	historyStep   = 10 * time.Second
	historyLength = 360
	// historyLook is the interval of looks at upstream's state. Shorter outages may be missed.
	historyLook = time.Second
	// outagesKept bounds the outages that are kept, even if one hour has more of them.
	outagesKept = 200
)

// lastHour records the last hour: a point every historyStep, and the outages. Callers never wait for it.
type lastHour struct {
	figures  *figures
	times    *metrics.Times // of requests upstream
	upstream func() api.UpstreamState

	// The last sample. Only the sampler touches it.
	last       trips
	lastReads  api.Reads
	lastWrites api.Writes
	sinceLook  int

	mu      sync.Mutex   // guards the fields below
	points  []api.Point  // oldest first
	outages []api.Outage // oldest first; the last one may still go on
	medians medians
}

// medians are the median durations, in seconds, of requests since the start, here and upstream; 0 if none was
// measured.
type medians struct{ localRead, localWrite, upstreamRead, upstreamWrite float64 }

func newLastHour(opts Options, f *figures) *lastHour {
	return &lastHour{figures: f, times: opts.Metrics.UpstreamRequests, upstream: opts.UpstreamState}
}

func (h *lastHour) run(ctx context.Context, each func()) error {
	ticks := time.NewTicker(historyLook)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
			now := time.Now()
			h.look(h.upstream(), now)
			each()
			if h.sinceLook++; h.sinceLook == int(historyStep/historyLook) {
				h.sinceLook = 0
				h.sample(now)
			}
		}
	}
}

func (h *lastHour) look(state api.UpstreamState, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, up := unixSeconds(now), state.State == "up"
	began := at
	if n := len(h.outages); n > 0 && h.outages[n-1].To == nil {
		last := &h.outages[n-1]
		if last.State == state.State {
			last.Reason = state.Reason
			return
		}
		if up {
			at = max(last.From, min(at, unixSeconds(state.Since)))
		}
		last.To = &at
	} else {
		began = min(at, unixSeconds(state.Since))
	}
	if !up {
		h.outages = append(h.outages, api.Outage{From: began, State: state.State, Reason: state.Reason})
	}
	for len(h.outages) > outagesKept || len(h.outages) > 0 && h.outages[0].To != nil && *h.outages[0].To < unixSeconds(now)-historyLength*historyStep.Seconds() {
		h.outages = h.outages[1:]
	}
}

type trips struct {
	localReads, localWrites       metrics.Distribution // answered without waiting for upstream
	upstreamReads, upstreamWrites metrics.Distribution // carried out by upstream
}

func (t *trips) local() metrics.Distribution    { return t.localReads.Plus(t.localWrites) }
func (t *trips) upstream() metrics.Distribution { return t.upstreamReads.Plus(t.upstreamWrites) }

const confirmed = "confirmed"

func readTrips(here *Measures, upstream *metrics.Times) (t trips) {
	for v := memory.GetEntry; v < memory.Verbs; v++ {
		local, there := &t.localReads, &t.upstreamReads
		first, end := memory.Outcome(0), memory.Outcome(memory.FromUpstream)
		if v == memory.PutEntry || v == memory.DeleteEntry {
			local, there = &t.localWrites, &t.upstreamWrites
			first, end = memory.WasAcknowledged, memory.WasAcknowledged+1
		}
		here.measured(v, first, end, func(s *metrics.Series) { *local = local.Plus(s.Distribution()) })
		*there = there.Plus(upstream.Of(v.String(), confirmed).Distribution())
	}
	return t
}

func (h *lastHour) sample(now time.Time) {
	taken := readTrips(h.figures.measures, h.times)
	reads, writes := h.figures.requests()
	local, upstream := taken.local().Since(h.last.local()), taken.upstream().Since(h.last.upstream())
	p := api.Point{
		At: unixSeconds(now), Pending: int64(h.figures.disk.journal.Stats().Pending),
		Reads: reads.Total - h.lastReads.Total, Writes: writes.Acknowledged - h.lastWrites.Acknowledged, Sent: writes.Sent - h.lastWrites.Sent,
		LocalP50: microseconds(&local, 0.5), LocalP99: microseconds(&local, 0.99),
		UpstreamP50: microseconds(&upstream, 0.5), UpstreamP99: microseconds(&upstream, 0.99),
	}
	h.last, h.lastReads, h.lastWrites = taken, reads, writes
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points = append(h.points, p)
	if len(h.points) > historyLength {
		h.points = h.points[1:]
	}
	h.medians = medians{median(&taken.localReads), median(&taken.localWrites), median(&taken.upstreamReads), median(&taken.upstreamWrites)}
}

func median(d *metrics.Distribution) float64 {
	seconds, _ := d.Quantile(0.5)
	return seconds
}

func microseconds(d *metrics.Distribution, q float64) *float64 {
	seconds, ok := d.Quantile(q)
	if !ok {
		return nil
	}
	rounded := math.Round(seconds*1e7) / 10
	return &rounded
}

// timeSaved estimates, in seconds, how much longer agents would have waited without botwired. Each read
// answered here saves a median read upstream. Each acknowledged write that did not wait saves a median
// write upstream. If only reads or only writes were measured upstream, their median stands for both.
// timeSaved returns nil if neither was measured.
func (h *lastHour) timeSaved(done *api.Figures) *float64 {
	h.mu.Lock()
	t := h.medians
	h.mu.Unlock()
	read, write := cmp.Or(t.upstreamRead, t.upstreamWrite), cmp.Or(t.upstreamWrite, t.upstreamRead)
	if read == 0 {
		return nil
	}
	waited := h.figures.measures.writes(memory.WasAwaited, memory.WasThrough+1)
	saved := float64(done.Reads.Hits)*max(0, read-t.localRead) + float64(max(0, done.Writes.Acknowledged-waited))*max(0, write-t.localWrite)
	saved = math.Round(saved*1e3) / 1e3
	return &saved
}

func (h *lastHour) answer(w http.ResponseWriter, _ *http.Request, _ *Parameters) error {
	h.mu.Lock()
	doc := api.History{
		Now: unixSeconds(time.Now()), StepSeconds: historyStep.Seconds(),
		Points: append([]api.Point{}, h.points...), Outages: append([]api.Outage{}, h.outages...),
	}
	h.mu.Unlock()
	return writeDocument(w, http.StatusOK, doc)
}
