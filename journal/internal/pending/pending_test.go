package pending_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
)

func id(n int) record.ID { return record.ID{Namespace: "ns", Key: fmt.Sprint("key", n)} }

// oldestOf returns since when the oldest entry of a namespace has been waiting, by checking all
// entries.
func oldestOf(s *pending.Space) float64 {
	oldest := math.Inf(1)
	s.Walk(0, math.MaxInt, func(e *pending.Entry) {
		v, _ := e.Visible()
		oldest = min(oldest, v.Since)
	})
	return oldest
}

// Oldest is exact or says that it is not, and a search finds the oldest entry even if entries come and
// leave meanwhile.
func TestOldest(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		x := pending.New()
		seq := uint64(0)
		change := func() {
			i := id(random.IntN(30))
			e := x.Get(i)
			switch v, ok := e.Visible(); {
			case !ok:
				seq++
				x.Restore(i, record.Pending{Seq: seq, Since: float64(1 + random.IntN(50)), UpdatedAt: 60, Op: record.Put})
			case random.IntN(2) == 0:
				x.Drop(e)
			default:
				x.WaitsSince(e, v.Since+float64(random.IntN(5)))
			}
		}
		for range 60 {
			change()
		}
		for range 200 {
			s := x.Space("ns")
			if s == nil {
				change()
				continue
			}
			since, exact := s.Oldest()
			if want := oldestOf(s); exact && since != want || since > want {
				t.Fatalf("seed %d: %v, exact %v, want %v", seed, since, exact, want)
			}
			if !exact {
				for q := s.NewSearch(); !q.Step(3); {
					change()
				}
			}
			change()
		}
	}
}

// A step of a search is short, regardless of the number of entries.
func TestSearchIsMadeOfSteps(t *testing.T) {
	const entries, atOnce = 10_000, 100
	x := pending.New()
	for i := range entries {
		x.Restore(id(i), record.Pending{Seq: uint64(i + 1), Since: float64(i + 1), UpdatedAt: float64(i + 1), Op: record.Put})
	}
	steps := 0
	for q := x.Space("ns").NewSearch(); !q.Step(atOnce); {
		steps++
	}
	if steps < entries/atOnce/4 {
		t.Errorf("%d entries were searched in %d steps", entries, steps)
	}
}

// A namespace that has no visible write for a moment has no oldest one. The next write that becomes
// visible is the oldest.
func TestOldestAfterNone(t *testing.T) {
	x := pending.New()
	x.Restore(id(1), record.Pending{Seq: 1, Since: 5, UpdatedAt: 5, CreatedAt: 5, Op: record.Put})
	coming := &pending.Write{Pending: record.Pending{Seq: 2, Since: 100, UpdatedAt: 100, CreatedAt: 100, Op: record.Put}}
	x.Add(id(2), coming)
	x.Drop(x.Get(id(1)))
	s := x.Space("ns")
	for q := s.NewSearch(); !q.Step(10); {
	}
	x.Show(coming)
	if since, exact := s.Oldest(); exact && since != 100 {
		t.Errorf("the oldest is said to wait since %v, and waits since 100", since)
	}
}

// A write in flight is the latest at once, and becomes visible with Show.
func TestWritesOnTheirWay(t *testing.T) {
	x := pending.New()
	a := id(1)
	writes := []*pending.Write{
		{Pending: record.Pending{Seq: 1, Op: record.Put, UpdatedAt: 1, Since: 1, CreatedAt: 1, Bytes: 3}},
		{Pending: record.Pending{Seq: 2, Op: record.Delete, UpdatedAt: 2, Since: 1, CreatedAt: 1}},
		{Pending: record.Pending{Seq: 3, Op: record.Put, UpdatedAt: 3, Since: 1, CreatedAt: 3, AfterDelete: true}},
	}
	for _, w := range writes {
		x.Add(a, w)
		if latest, ok := x.Get(a).Latest(); !ok || latest != w.Pending {
			t.Errorf("latest is %+v", latest)
		}
		if _, ok := x.Get(a).Visible(); ok || x.Space("ns").Len() != 0 {
			t.Error("visible before it is shown")
		}
	}
	var before record.Pending
	for i, w := range writes {
		replaced, ok := x.Show(w)
		if ok != (i > 0) || ok && replaced != before {
			t.Errorf("replaced %+v, %v", replaced, ok)
		}
		if v, ok := x.Get(a).Visible(); !ok || v != w.Pending {
			t.Errorf("visible is %+v, want %+v", v, w.Pending)
		}
		before = w.Pending
	}
	x.WaitsSince(x.Get(a), 2.5)
	if v, _ := x.Get(a).Visible(); v.Since != 2.5 || v.CreatedAt != 3 {
		t.Errorf("%+v", v)
	}
	s := x.Space("ns")
	if s.Len() != 1 || s.Bytes() != writes[2].Size(a) {
		t.Errorf("%d entries of %d bytes", s.Len(), s.Bytes())
	}
	x.Drop(x.Get(a))
	if s.Len() != 0 || x.Space("ns") != nil || x.Get(a) != nil {
		t.Error("it is still there")
	}
}

// There may be a million entries.
func TestEntryIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(pending.Entry{}); size > 80 {
		t.Errorf("an entry takes %d bytes", size)
	}
}
