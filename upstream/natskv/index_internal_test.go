package natskv

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// modelOf is an index as a map, with what it has reported.
type modelOf struct {
	last map[journal.ID]upstream.Version
	told map[journal.ID][]upstream.Version
}

func (m *modelOf) hear(id journal.ID, v upstream.Version) { m.told[id] = append(m.told[id], v) }

type indexRow struct {
	Key string
	upstream.Version
}

// rowsOf returns a namespace's listing.
func rowsOf(x *index, namespace string, most int) (rows []indexRow, total int) {
	total, _ = x.rows(namespace, most, func(key string, v upstream.Version) { rows = append(rows, indexRow{key, v}) })
	return rows, total
}

// listed returns the expected listing of a namespace.
func (m *modelOf) listed(namespace string) (rows []indexRow) {
	for id, v := range m.last {
		if id.Namespace == namespace && !v.Deleted {
			rows = append(rows, indexRow{id.Key, v})
		}
	}
	slices.SortFunc(rows, func(a, b indexRow) int {
		return cmp.Or(cmp.Compare(b.WrittenAt, a.WrittenAt), cmp.Compare(b.Writer.Host, a.Writer.Host),
			cmp.Compare(b.Writer.Seq, a.Writer.Seq), cmp.Compare(a.Key, b.Key))
	})
	return rows
}

// Versions may arrive in any order: the index holds the one with the highest revision. It lists entries
// newest first, and its last report of an entry is the version that it holds.
func TestIndexLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &modelOf{map[journal.ID]upstream.Version{}, map[journal.ID][]upstream.Version{}}
		x := newIndex()
		x.onChange = m.hear
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) { m.apply(t, x) },
			"forget": func(t *rapid.T) {
				id := drawID(t)
				if v := m.last[id]; rapid.Bool().Draw(t, "its own") {
					x.forget(id, v.Revision, 1000)
					delete(m.last, id)
				} else {
					x.forget(id, v.Revision+1, 1000)
				}
			},
			"": func(t *rapid.T) { m.compare(t, x) },
		})
	})
}

func drawID(t *rapid.T) journal.ID {
	return journal.ID{
		Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"),
		Key:       fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "key")),
	}
}

func (m *modelOf) apply(t *rapid.T, x *index) {
	id := drawID(t)
	v := upstream.Version{
		Revision: rapid.Uint64Range(1, 200).Draw(t, "revision"), Deleted: rapid.Bool().Draw(t, "deleted"),
		CreatedAt: 1, WrittenAt: float64(rapid.IntRange(1, 5).Draw(t, "written")) + 0.25,
		Writer: upstream.Writer{Host: rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "host"), Seq: rapid.Uint64Range(0, 2).Draw(t, "seq")},
	}
	if !v.Deleted {
		v.ListBytes = rapid.IntRange(0, 9).Draw(t, "bytes")
	}
	x.apply(id, v)
	if v.Revision > m.last[id].Revision {
		if before := m.last[id].WrittenAt; v.WrittenAt < before {
			v.WrittenAt = seconds(upstream.Micros(before) + 1)
		}
		m.last[id] = v
	}
}

func (m *modelOf) compare(t *rapid.T, x *index) {
	for id, want := range m.last {
		if got, _ := x.get(id); got != want {
			t.Fatalf("%v is %+v, want %+v", id, got, want)
		}
		if told := m.told[id]; told[len(told)-1] != want {
			t.Fatalf("%v: told last %+v, want %+v", id, told[len(told)-1], want)
		}
	}
	present := 0
	for _, namespace := range []string{"a", "b"} {
		want := m.listed(namespace)
		present += len(want)
		got, total := rowsOf(x, namespace, 1000)
		if total != len(want) || !slices.Equal(got, want) {
			t.Fatalf("%s lists %d: %+v, want %+v", namespace, total, got, want)
		}
		if some, _ := rowsOf(x, namespace, 3); !slices.Equal(some, want[:min(3, len(want))]) {
			t.Fatalf("the first three are %+v, want the beginning of %+v", some, want)
		}
	}
	if f := x.figures(); f.entries != present || f.subjects != len(m.last) {
		t.Fatalf("the figures are %+v, want %d of %d", f, present, len(m.last))
	}
}

// A shelf of many blocks stays in order.
func TestShelfOfManyBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	before := func(a, b *row) bool { return a.written > b.written }
	var s shelf
	var held []*row
	for step := range 30_000 {
		if at := random.IntN(len(held) + 1); at < len(held) && random.IntN(5) < 2 || len(held) > 5000 && at < len(held) {
			s.remove(held[at], before)
			held[at] = held[len(held)-1]
			held = held[:len(held)-1]
			continue
		}
		r := &row{written: int64(step) << 20}
		if random.IntN(2) == 0 {
			r.written = random.Int64N(30_000)<<20 + int64(step)
		}
		s.insert(r, before)
		held = append(held, r)
	}
	slices.SortFunc(held, func(a, b *row) int { return cmp.Compare(b.written, a.written) })
	if got := slices.Collect(s.all()); !slices.Equal(got, held) || s.len != len(held) {
		t.Fatalf("%d rows, want %d, or their order is wrong", len(got), len(held))
	}
	if most := len(held)*4/blockSize + 2; len(s.blocks) > most {
		t.Fatalf("%d rows in %d blocks", len(held), len(s.blocks))
	}
	for _, r := range held {
		s.remove(r, before)
	}
	if len(s.blocks) != 0 || s.len != 0 {
		t.Fatalf("an empty shelf has %d blocks and %d rows", len(s.blocks), s.len)
	}
}

func put(x *index, key string, revision uint64, deleted bool) journal.ID {
	id := journal.ID{Namespace: "ns", Key: key}
	x.apply(id, upstream.Version{Revision: revision, Deleted: deleted, WrittenAt: float64(revision), Writer: upstream.Writer{Host: "h"}})
	return id
}

// Reading the whole bucket removes the entries that were not delivered, but none that came later.
func TestVanished(t *testing.T) {
	var told []journal.ID
	x := newIndex()
	x.onChange = func(id journal.ID, v upstream.Version) {
		if v.Deleted {
			told = append(told, id)
		}
	}
	shown, gone, late := put(x, "shown", 3, false), put(x, "gone", 4, false), put(x, "late", 9, false)
	buried := put(x, "buried", 5, true)
	told = nil
	if n := x.vanished([]uint64{1, 3}, 8); n != 2 {
		t.Fatalf("%d have vanished, want 2", n)
	}
	for id, want := range map[journal.ID]uint64{shown: 3, gone: 0, late: 9, buried: 0} {
		if v, _ := x.get(id); v.Revision != want {
			t.Errorf("%s has revision %d, want %d", id.Key, v.Revision, want)
		}
	}
	if len(told) != 1 || told[0] != gone {
		t.Errorf("told as deleted: %v, want %v alone", told, gone)
	}
}

// After another bucket was accepted, its entries are reported, and the entries that it lacks.
func TestAnotherBucket(t *testing.T) {
	last := make(map[string]upstream.Version)
	x := newIndex()
	x.onChange = func(id journal.ID, v upstream.Version) { last[id.Key] = v }
	put(x, "both", 7, false)
	put(x, "gone", 8, false)
	before := x.clear()
	if _, known := x.get(journal.ID{Namespace: "ns", Key: "both"}); known {
		t.Error("an index that was cleared knows its entries")
	}
	put(x, "both", 2, false) // revisions restart
	x.tellMissing(before, 2)
	if v := last["both"]; v.Deleted || v.Revision != 2 {
		t.Errorf("the entry that both have was told as %+v", v)
	}
	if v := last["gone"]; !v.Deleted || v.WrittenAt <= 8 {
		t.Errorf("the one that is no more was told as %+v", v)
	}
}

// A version that replaced another one is the later one, even with an earlier time.
func TestAnEarlierTimeIsNoEarlierVersion(t *testing.T) {
	id := journal.ID{Namespace: "ns", Key: "k"}
	var told upstream.Version
	x := newIndex()
	x.onChange = func(_ journal.ID, v upstream.Version) { told = v }
	x.apply(id, upstream.Version{Revision: 1, WrittenAt: 10})
	x.apply(id, upstream.Version{Revision: 2, WrittenAt: 5})
	if v, _ := x.get(id); v.Revision != 2 || v.WrittenAt != 10.000001 || told.WrittenAt != 10.000001 {
		t.Errorf("it is %+v, and was told as %+v", v, told)
	}
	x.apply(id, upstream.Version{Revision: 3, WrittenAt: 10.000001, Writer: upstream.Writer{Host: "z"}})
	if v, _ := x.get(id); v.Revision != 3 || v.WrittenAt != 10.000001 {
		t.Errorf("another host's write at the same moment is %+v", v)
	}
	x.apply(id, upstream.Version{Revision: 2, WrittenAt: 5})
	if told.Revision != 3 {
		t.Errorf("an old version was told as %+v", told)
	}
}

// The last trace of an entry is removed when its time has come, unless the entry was written since.
func TestExpire(t *testing.T) {
	x := newIndex()
	now := time.Now()
	for _, key := range []string{"due", "later", "written"} {
		x.expires(put(x, key, 1, true), 1, now.Add(map[string]time.Duration{"later": time.Hour}[key]))
	}
	put(x, "written", 2, true)
	if old := x.tombstones(upstream.Micros(10)); len(old) != 1 || old[0].Key != "written" {
		t.Errorf("tombstones that are to be removed: %v; the others are their last traces", old)
	}
	x.expire(now.Add(time.Minute))
	for key, want := range map[string]uint64{"due": 0, "later": 1, "written": 2} {
		if v, _ := x.get(journal.ID{Namespace: "ns", Key: key}); v.Revision != want {
			t.Errorf("%s has revision %d, want %d", key, v.Revision, want)
		}
	}
	x.expires(journal.ID{Namespace: "ns", Key: "later"}, 1, now.Add(time.Hour)) // the bucket was read twice
	for at, want := range map[time.Duration]uint64{time.Minute: 0, time.Hour - expiryMargin: 1} {
		if got := x.mayVanish(now.Add(at)); got != want {
			t.Errorf("after %v %d rows may vanish, want %d", at, got, want)
		}
	}
}

// A time far ahead of this machine's clock does not affect other writes, and is reported once per host.
func TestLatest(t *testing.T) {
	var l latest
	now := time.UnixMicro(1_000_000_000)
	see := func(host string, ahead time.Duration) time.Duration {
		return l.see(upstream.Version{WrittenAt: seconds(now.Add(ahead).UnixMicro()), Writer: upstream.Writer{Host: host}}, now)
	}
	if by := see("a", 59*time.Second); by != 0 || l.get() != now.Add(59*time.Second).UnixMicro() {
		t.Errorf("a clock 59 s ahead: told %v, latest %d", by, l.get())
	}
	if by := see("b", time.Hour); by != time.Hour {
		t.Errorf("a clock 1 h ahead: told %v", by)
	}
	if by := see("b", time.Hour); by != 0 || l.get() != now.Add(59*time.Second).UnixMicro() {
		t.Errorf("told again %v, latest %d", by, l.get())
	}
	see("a", -time.Hour)
	if l.get() != now.Add(59*time.Second).UnixMicro() {
		t.Errorf("latest went back to %d", l.get())
	}
}

// filled returns an index of n entries of one namespace, each written by one of 8 hosts.
func filled(n int) *index {
	x := newIndex()
	for i := range n {
		x.apply(journal.ID{Namespace: "ns", Key: fmt.Sprintf("agent-%07d", i)}, upstream.Version{
			Revision: uint64(i + 1), ListBytes: 100, CreatedAt: 1.7e9, WrittenAt: 1.7e9 + float64(i),
			Writer: upstream.Writer{Host: fmt.Sprint("host", i%8), Seq: uint64(i)},
		})
	}
	return x
}

// The memory in a report is about what the entries take.
func TestMemoryIsHonest(t *testing.T) {
	const n = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := filled(n)
	runtime.GC()
	runtime.ReadMemStats(&after)
	real, said := int64(after.HeapAlloc-before.HeapAlloc), x.figures().memory
	if said < real*8/10 || said > real*13/10 {
		t.Errorf("the report says %d bytes an entry, and it takes %d", said/n, real/n)
	}
	runtime.KeepAlive(x)
}

// BenchmarkIndex measures an entry's memory, and the time of LIST in a namespace of 100,000 while
// changes come.
func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("memory/%d", n), func(b *testing.B) {
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				x := filled(n)
				runtime.GC()
				runtime.ReadMemStats(&after)
				runtime.KeepAlive(x)
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "bytes/entry")
		})
	}
	x := filled(100_000)
	revision := uint64(1 << 20)
	change := func() {
		revision++
		i := revision % 100_000
		x.apply(journal.ID{Namespace: "ns", Key: fmt.Sprintf("agent-%07d", i)}, upstream.Version{
			Revision: revision, ListBytes: 100, WrittenAt: 1.7e9 + float64(revision), Writer: upstream.Writer{Host: "host1"},
		})
	}
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			change()
		}
	})
	b.Run("list1000of100000", func(b *testing.B) {
		for b.Loop() {
			change()
			if rows, _ := rowsOf(x, "ns", 1000); len(rows) != 1000 {
				b.Fatal(len(rows))
			}
		}
	})
	b.Run("entry", func(b *testing.B) {
		id := journal.ID{Namespace: "ns", Key: "agent-0000007"}
		for b.Loop() {
			if v, _ := x.get(id); v.Revision == 0 {
				b.Fatal("missing")
			}
		}
	})
}
