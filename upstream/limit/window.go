package limit

import "time"

// window limits how many requests may be in flight: additive increase, multiplicative decrease. It
// grows by one about once a second while requests succeed, and is halved when upstream is overloaded or
// does not answer.
//
// Requests that were sent before the last halving do not count. Further failures of a namespace's
// reads, or of its writes, do not count either: the namespace may be sick itself. BotWire's 429 does
// not halve the window: only its namespace waits (contract 15).
//
// window is not safe for concurrent use.
type window struct {
	most    int
	size    int
	halved  time.Time       // when it was last halved
	failing map[origin]bool // upstream has pushed back on the origin, and has not answered it since

	// Requests that ended in the present round.
	began          time.Time
	ended, refused int
}

const (
	// growsEvery is how long a round lasts. At its end the window grows.
	growsEvery = time.Second
	// enoughEnded is how many requests have to end before failures among them count; less if the window
	// is smaller. If fewer end in a round, upstream is not crowded.
	enoughEnded = 8
	// The window is halved when upstream refuses more than one request in fewRefused.
	fewRefused = 4
	// remembered bounds each set that Remember fills: failing origins here, and the failing entries and
	// namespaces of the flusher and the reader.
	remembered = 1024
	// pushedLately is how long the status shows that upstream has pushed back.
	pushedLately = time.Minute
)

// Concurrency says how many requests may be in flight.
type Concurrency struct {
	Limit  int    // upstream.concurrency
	Now    int    // the present limit: the number that upstream can take
	Reason string // why Now is less, for people; empty if upstream has not pushed back lately
}

// origin is the reads, or the writes, of a namespace.
type origin struct {
	part      int
	namespace string
}

// request is the present request of a slot.
type request struct {
	origin
	sent    time.Time // when it began
	failing bool      // upstream had already pushed back on the origin
}

func newWindow(most int) *window {
	most = max(1, most)
	return &window{most: most, size: most, failing: make(map[origin]bool)}
}

func (w *window) takeIn(r *request, pushed, answered bool, now time.Time) {
	switch {
	case pushed:
		Remember(w.failing, r.origin, true)
	case answered:
		delete(w.failing, r.origin)
	default:
		return
	}
	if r.sent.Before(w.halved) || pushed && r.failing { // guard 16.12
		return
	}
	if w.ended == 0 {
		w.began = now
	}
	w.ended++
	if pushed {
		w.refused++
	}
	switch {
	case w.ended >= min(enoughEnded, w.size) && w.refused*fewRefused > w.ended: // guard 16.10
		// guard 16.8
		w.size, w.halved = max(1, w.size/2), now
	case now.Sub(w.began) < growsEvery:
		return
	case w.refused < w.ended:
		w.size = min(w.size+1, w.most) // guard 16.9
	}
	w.ended, w.refused = 0, 0
}

// Remember adds to a set of bounded size. If the set is full, it evicts an arbitrary element.
func Remember[K comparable, V any](set map[K]V, key K, value V) {
	if _, ok := set[key]; !ok && len(set) >= remembered {
		for other := range set {
			delete(set, other)
			break
		}
	}
	set[key] = value
}

func (w *window) concurrency(now time.Time) Concurrency {
	c := Concurrency{Limit: w.most, Now: w.size}
	if c.Now < c.Limit && now.Sub(w.halved) < pushedLately {
		c.Reason = "upstream is overloaded, or does not answer"
	}
	return c
}
