package sim

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/botwired/botwired/journal"
)

// skewHeader tells the service how far its client's clock is ahead of its own. All clocks in a
// bubble are one. So a client whose clock is ahead is shown all times as much earlier: to it,
// that is the same.
const skewHeader = "Sim-Skew"

func skewOf(r *http.Request) time.Duration {
	d, err := time.ParseDuration(r.Header.Get(skewHeader))
	if err != nil {
		return 0
	}
	return d
}

// skewed is a time of the service's, in Unix seconds, as such a client is shown it.
func skewed(at float64, skew time.Duration) float64 { return at - skew.Seconds() }

// hostHeader tells the service which of several hosts asks.
const hostHeader = "Sim-Host"

// arrivedAt is the key under which a request's context has the time of its arrival.
type arrivedAt struct{}

// arrives takes in a request. The caller holds mu.
func (s *service) arrives(r *http.Request, id journal.ID, body []byte) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), arrivedAt{}, time.Now()))
	if r.Method == http.MethodGet || !s.prompt {
		return r
	}
	what, _ := s.written(id, body)
	shown, violation := s.overwrites.arrives(r, id, what, s.veil != nil)
	violation = cmp.Or(violation, s.windows.arrives(sightOf(r, id), shown.to))
	if violation != "" {
		s.violations = append(s.violations, violation)
	}
	return r.WithContext(context.WithValue(r.Context(), spanKey{}, shown))
}

// sights are what the service remembers of what several hosts could see when they overwrote each
// other. The service's lock guards them.
type sights struct {
	looked map[sight][]time.Time        // when a host was shown an entry, or wrote it
	writes map[journal.ID][]overwriting // in the order in which they were carried out
}

// sight is one host's on one entry.
type sight struct {
	host string
	id   journal.ID
}

func sightOf(r *http.Request, id journal.ID) sight { return sight{r.Header.Get(hostHeader), id} }

// overwriting is a PUT that was carried out.
type overwriting struct {
	host, value string
	at          time.Time
	// seen is when the host had last been shown the entry, or had written it, before the
	// request came; zero if it never had.
	seen time.Time
}

// window is the time for which the host could not see what it overwrote.
func (o overwriting) window() time.Duration { return o.at.Sub(o.seen) }

func (s *sights) look(r *http.Request, id journal.ID) {
	if s.looked == nil {
		s.looked, s.writes = make(map[sight][]time.Time), make(map[journal.ID][]overwriting)
	}
	of := sightOf(r, id)
	s.looked[of] = append(s.looked[of], time.Now())
}

func (s *sights) write(r *http.Request, id journal.ID, value string) {
	o := overwriting{host: r.Header.Get(hostHeader), value: value, at: time.Now()}
	arrived, _ := r.Context().Value(arrivedAt{}).(time.Time)
	for _, at := range s.looked[sight{o.host, id}] {
		if !at.After(arrived) {
			o.seen = at
		}
	}
	s.look(r, id)
	s.writes[id] = append(s.writes[id], o)
}
