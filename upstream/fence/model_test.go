package fence

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// modelHost is a fence's view of a host: one entry, its pending write, and the write's base.
type modelHost struct {
	name    string
	clock   float64
	seq     uint64
	pending *journal.Write
	base    journal.Base
	own     []journal.Content
	seen    upstream.Version // delivered by its watch
	kept    []string
}

// modelBucket holds the versions of one entry.
type modelBucket struct{ versions []upstream.Version }

func (b *modelBucket) last() upstream.Version {
	if len(b.versions) == 0 {
		return upstream.Version{}
	}
	return b.versions[len(b.versions)-1]
}

// modelWrite is an acknowledged write.
type modelWrite struct {
	host, value string
	seq         uint64
	at          float64
}

// Hosts with different clocks make writes, reads, requests and lost answers in any order. In the end
// the latest write by time, host and number remains, and no acknowledged write is lost without a trace.
func TestExactFencesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &modelBucket{}
		hosts := []*modelHost{{name: "a", clock: 1000}, {name: "b", clock: 1003}, {name: "c", clock: 1000}}
		var writes []modelWrite
		act := func(h *modelHost, what int) {
			switch what {
			case 0, 1:
				writes = append(writes, h.write(t))
			case 2: // its watch catches up
				h.seen = b.last()
			case 3: // a reader asks
				h.fill(b.last())
			case 4, 5:
				h.flush(t, b, h.seen, rapid.Bool().Draw(t, "lost"))
			case 6:
				h.clock += float64(rapid.IntRange(0, 3).Draw(t, "passes"))
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			act(hosts[rapid.IntRange(0, 2).Draw(t, "host")], rapid.IntRange(0, 6).Draw(t, "what"))
		}
		for _, h := range hosts {
			for h.pending != nil {
				h.flush(t, b, b.last(), false)
			}
		}
		checkModel(t, b, hosts, writes)
	})
}

func (h *modelHost) write(t *rapid.T) modelWrite {
	h.seq++
	h.clock += rapid.SampledFrom([]float64{0, 1e-6, 1}).Draw(t, "later")
	at := max(h.clock, h.seen.WrittenAt+1e-6)
	if h.pending != nil {
		at = max(at, h.pending.UpdatedAt+1e-6)
	}
	w := journal.Write{Seq: h.seq, Op: journal.Put, Value: fmt.Sprint(h.name, h.seq), UpdatedAt: at, WrittenAt: h.clock}
	if rapid.IntRange(0, 3).Draw(t, "op") == 0 {
		w.Op, w.Value = journal.Delete, ""
	}
	h.pending = &w
	return modelWrite{h.name, w.Value, w.Seq, at}
}

// fill does what the journal's does: the base of a pending write stays.
func (h *modelHost) fill(v upstream.Version) {
	if h.pending != nil {
		return
	}
	h.settle(v, 0)
}

func (h *modelHost) settle(v upstream.Version, seq uint64) {
	h.own, h.base = nil, journal.Base{}
	if v.Present() {
		h.base = journal.Base{Known: true, Present: true, Content: v.Content(), Origin: journal.Origin{Seq: seq}, UpdatedAt: v.WrittenAt}
	}
}

// flush is one attempt. It begins with the version that the host knows.
func (h *modelHost) flush(t *rapid.T, b *modelBucket, now upstream.Version, lost bool) {
	if h.pending == nil {
		return
	}
	valued := false
	for range 20 {
		w := *h.pending
		q := &Question{Write: w, Exactly: &Exactly{Host: h.name, Tombstones: true}, Now: now, Valued: valued, Base: h.base, Own: h.own}
		end := q.Judge()
		switch end {
		case Undecided:
			now, valued = b.last(), true
			continue
		case Own, Held:
			h.pending = nil
			h.settle(now, w.Seq)
			return
		case Lost:
			h.kept = append(h.kept, w.Value)
			h.pending = nil
			h.settle(now, 0)
			return
		case Won:
			h.kept = append(h.kept, now.Value)
		}
		if b.last().Revision != now.Revision {
			now, valued = b.last(), true
			continue
		}
		v := b.swap(t, h, w, now, end)
		if h.seen = v; lost {
			h.own = append(h.own, journal.ContentOf(w.Op, w.Value))
			return
		}
		h.pending = nil
		h.settle(v, w.Seq)
		return
	}
	t.Fatal("the host never comes to an end")
}

// swap makes a write the last version.
func (b *modelBucket) swap(t *rapid.T, h *modelHost, w journal.Write, over upstream.Version, end Outcome) upstream.Version {
	at := max(upstream.Micros(w.UpdatedAt), upstream.Micros(over.WrittenAt)+1)
	v := upstream.Version{
		Revision: over.Revision + 1, Deleted: w.Op == journal.Delete, Value: w.Value, WrittenAt: float64(at) / 1e6,
		Writer: upstream.Writer{Host: h.name, Seq: w.Seq},
	}
	foreign := over.Present() && over.Writer.Host != h.name
	if foreign && end != Won && end != Same && h.base.Content != over.Content() {
		t.Fatalf("%+v takes the place of %+v, which its host did not know", w, over)
	}
	b.versions = append(b.versions, v)
	return v
}

func checkModel(t *rapid.T, b *modelBucket, hosts []*modelHost, writes []modelWrite) {
	last := b.last()
	for _, w := range writes {
		if upstream.Micros(w.at) > upstream.Micros(last.WrittenAt) {
			t.Fatalf("%+v is later than what is left: %+v", w, last)
		}
		inBucket := slices.ContainsFunc(b.versions, func(v upstream.Version) bool { return v.Writer == upstream.Writer{Host: w.host, Seq: w.seq} })
		superseded := slices.ContainsFunc(writes, func(o modelWrite) bool { return o.host == w.host && o.seq > w.seq })
		kept := slices.ContainsFunc(hosts, func(h *modelHost) bool { return slices.Contains(h.kept, w.value) })
		if !inBucket && !superseded && !kept && w.value != "" {
			t.Fatalf("%+v is gone without a trace", w)
		}
	}
	for i, v := range b.versions {
		if i > 0 && upstream.Micros(v.WrittenAt) <= upstream.Micros(b.versions[i-1].WrittenAt) {
			t.Fatalf("%+v follows %+v", v, b.versions[i-1])
		}
	}
}
