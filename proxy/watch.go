package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/botwired/botwired/api"
)

// WatchState says how the watch does that keeps a [View] up to date.
type WatchState struct {
	Bucket  string    // that is watched
	Server  string    // that the connection leads to; empty if there is none
	Lost    string    // why upstream is not believed; empty if it is: see [Loss]
	Sound   bool      // the view misses nothing
	Since   time.Time // since when it is, or is not
	Reason  string    // for people: why it is not; empty if it is
	Entries int       // in the view
	Bytes   int64     // about the memory that the view takes
}

func newWatchDocument(look func() WatchState) *api.WatchState {
	if look == nil {
		return nil
	}
	now := look()
	return &api.WatchState{
		Bucket: now.Bucket, Server: now.Server, Lost: now.Lost,
		Sound: now.Sound, Since: now.Since.UTC().Round(time.Millisecond), Reason: now.Reason,
		Entries: now.Entries, Bytes: now.Bytes,
	}
}

// watchCounters count what a watch tells.
type watchCounters struct {
	events       *prometheus.CounterVec // that has own and foreign
	own, foreign prometheus.Counter
	fetches      prometheus.Counter
}

func newWatchCounters() watchCounters {
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "botwired_watch_events_total",
		Help: "Versions of entries that the watch has told of since the start, by writer: this host's own, or another's.",
	}, []string{"writer"})
	return watchCounters{
		events: events, own: events.WithLabelValues("own"), foreign: events.WithLabelValues("foreign"),
		fetches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "botwired_watch_fetches_total",
			Help: "Entries that were fetched since the start because another host had changed them.",
		}),
	}
}

var (
	watchSoundDesc   = desc("botwired_watch_sound", "1 while the watch of upstream misses nothing, so that no answer gets old, else 0.")
	watchEntriesDesc = desc("botwired_watch_entries", "Entries of which the watch knows upstream's version.")
)

// collectWatch has no values if nothing watches.
func (c *collector) collectWatch(gauge func(*prometheus.Desc, float64, ...string)) {
	if c.opts.WatchState == nil {
		return
	}
	now := c.opts.WatchState()
	gauge(watchSoundDesc, oneIf(now.Sound))
	gauge(watchEntriesDesc, float64(now.Entries))
}

// oneIf is 1 for yes and 0 for no.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
