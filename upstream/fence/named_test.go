package fence

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// namedStore holds an entry's last version, and carries each write out over any version.
type namedStore struct {
	landed uint64
	now    upstream.Version
	late   []upstream.Version // requests that were not answered, and may still be carried out
}

// namedHost is a fence's view of a host: one entry, its pending write, and its copy.
type namedHost struct {
	name     string
	clock    float64
	seq      uint64
	pending  *journal.Write
	copied   upstream.Version // nothing is known while its revision is 0
	own      []journal.Content
	kept     []string
	settled  []string
	repaired map[uint64]bool   // by revision
	sending  *upstream.Version // judged, and not carried out yet
}

// Hosts with different clocks share a store that does not compare, and whose versions name their writer and
// time. Requests are carried out late or twice. A host that reads an older version than it has known writes
// the newer one again, once for each time that the older one was carried out. In the end the latest version by time remains.
func TestNamedFencesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &namedStore{}
		hosts := []*namedHost{{name: "a", clock: 1000}, {name: "b", clock: 1003}, {name: "c", clock: 1000}}
		for _, h := range hosts {
			h.repaired = map[uint64]bool{}
		}
		act := func(h *namedHost, what int) {
			switch what {
			case 0, 1:
				h.write(t)
			case 2:
				h.read(s)
			case 3, 4:
				h.judge(s)
			case 5:
				h.lands(s, true)
			case 6:
				h.lands(s, false)
			case 7:
				s.landLate(t)
			case 8:
				h.clock += float64(rapid.IntRange(0, 3).Draw(t, "passes"))
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			act(hosts[rapid.IntRange(0, 2).Draw(t, "host")], rapid.IntRange(0, 8).Draw(t, "what"))
		}
		for len(s.late) > 0 {
			s.landLate(t)
		}
		for n := 0; ; n++ {
			busy, before := false, s.now
			for _, h := range hosts {
				h.lands(s, true)
				h.judge(s)
				h.lands(s, true)
				h.read(s)
				busy = busy || h.pending != nil
			}
			if !busy && s.now == before {
				break
			}
			if n == 20 {
				t.Fatal("the hosts never come to an end")
			}
		}
		for _, h := range hosts {
			if h.seq == 0 {
				continue
			}
			if h.copied.MadeAt > s.now.MadeAt {
				t.Fatalf("%s knows %+v, and what is left is earlier: %+v", h.name, h.copied, s.now)
			}
			for n := range h.seq {
				value := fmt.Sprint(h.name, n+1)
				if last := n+1 == h.seq; last && !slices.Contains(h.settled, value) && !slices.Contains(h.kept, value) {
					t.Fatalf("%s is gone without a trace", value)
				}
			}
		}
	})
}

func (h *namedHost) write(t *rapid.T) {
	h.seq++
	h.clock += rapid.SampledFrom([]float64{0, 1e-6, 1}).Draw(t, "later")
	h.pending = &journal.Write{ID: journal.ID{Key: "k"}, Seq: h.seq, Op: journal.Put, Value: fmt.Sprint(h.name, h.seq), WrittenAt: h.clock}
}

// read takes the last version, and repairs it if it is older than the copy.
func (h *namedHost) read(s *namedStore) {
	if h.pending != nil || s.now.Revision == 0 { // the base stays
		return
	}
	if s.now.MadeAt >= h.copied.MadeAt {
		h.copied = s.now
		return
	}
	if !h.repaired[s.now.Revision] {
		h.repaired[s.now.Revision] = true
		h.pending = &journal.Write{Op: journal.Put, Value: h.copied.Value, WrittenAt: h.copied.MadeAt, LosesTies: true, Fenced: true, Seq: h.seq + 1000}
	}
}

// judge asks for the last version, and decides.
func (h *namedHost) judge(s *namedStore) {
	if h.pending == nil || h.sending != nil {
		return
	}
	w, base := *h.pending, journal.Base{}
	w.UpdatedAt = w.WrittenAt
	if c := h.copied; c.Revision != 0 {
		seq := uint64(0)
		if c.Writer.Host == h.name {
			seq = c.Writer.Seq
		}
		base = journal.Base{Known: true, Present: true, Content: c.Content(), Origin: journal.Origin{Seq: seq}, UpdatedAt: c.MadeAt}
		if !w.LosesTies {
			w.UpdatedAt = max(w.WrittenAt, c.MadeAt+1e-6)
		}
	}
	now := s.now
	now.WrittenAt = now.MadeAt
	q := &Question{Write: w, Exactly: &Exactly{Host: h.name}, Now: now, Valued: true, Base: base, Own: h.own}
	switch end := q.Judge(); end {
	case Own, Held:
		h.settle(s.now)
		return
	case Lost:
		if !w.LosesTies {
			h.kept = append(h.kept, w.Value)
		}
		h.pending, h.own = nil, nil
		if s.now.MadeAt >= h.copied.MadeAt {
			h.copied = s.now
		}
		return
	case Won:
		h.kept = append(h.kept, now.Value)
	}
	at := max(upstream.Micros(w.UpdatedAt), upstream.Micros(now.MadeAt)+1)
	h.sending = &upstream.Version{Revision: 1, Value: w.Value, MadeAt: float64(at) / 1e6, Writer: upstream.Writer{Host: h.name, Seq: w.Seq}}
}

func (h *namedHost) settle(v upstream.Version) {
	h.settled = append(h.settled, v.Value)
	h.copied, h.own = v, nil
	if h.pending.Value == v.Value {
		h.pending = nil
	}
}

// lands ends the request: it was carried out, or it was not answered.
func (h *namedHost) lands(s *namedStore, answered bool) {
	v := h.sending
	if v == nil {
		return
	}
	h.sending = nil
	if !answered {
		s.late = append(s.late, *v)
		h.own = append(h.own, v.Content())
		return
	}
	s.land(*v)
	h.settle(s.now)
}

// land carries a request out.
func (s *namedStore) land(v upstream.Version) {
	s.landed++
	v.Revision = s.landed
	s.now = v
}

func (s *namedStore) landLate(t *rapid.T) {
	if len(s.late) == 0 {
		return
	}
	i := rapid.IntRange(0, len(s.late)-1).Draw(t, "late")
	s.land(s.late[i])
	s.late = slices.Delete(s.late, i, i+1)
}
