package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

func pendingPut(key string, seq uint64, at float64) journal.Pending {
	return journal.Pending{ID: id("ns", key), Op: journal.Put, Seq: seq, ListBytes: int(seq), UpdatedAt: at}
}

func pendingDelete(key string, seq uint64) journal.Pending {
	return journal.Pending{ID: id("ns", key), Op: journal.Delete, Seq: seq}
}

// laidOver lays the visited writes over the rows, in one pass without changes.
func laidOver(rows []journal.Row, visits []journal.Pending, limit, spare int) []wire.Item {
	o := newOverlay(rows, limit+spare)
	for _, p := range visits {
		o.visit(p)
	}
	o.sort()
	if o.lacks(limit) {
		return laidOver(rows, visits, limit, 2*(limit+spare))
	}
	return o.over(rows, limit)
}

// k was written before u, but reached upstream, and got its time there, after u was written: u is still the
// newer one, as it will be upstream.
func TestPendingIsNewerThanSettled(t *testing.T) {
	settled := []journal.Row{
		{Key: "k", ListBytes: 1, UpdatedAt: 100.130}, {Key: "old", ListBytes: 1, UpdatedAt: 99}, {Key: "older", ListBytes: 1, UpdatedAt: 98},
	}
	got := laidOver(settled, []journal.Pending{pendingPut("u", 2, 100.090), pendingPut("w", 3, 100.095), pendingPut("older", 4, 97)}, 10, 10)
	want := []wire.Item{
		{Key: "older", Bytes: 4, UpdatedAt: 100.130},
		{Key: "w", Bytes: 3, UpdatedAt: 100.130},
		{Key: "u", Bytes: 2, UpdatedAt: 100.130},
		{Key: "k", Bytes: 1, UpdatedAt: 100.130},
		{Key: "old", Bytes: 1, UpdatedAt: 99},
	}
	if d := diff.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// naive lays all pending writes over all rows: the newest write of each entry.
func naive(rows []journal.Row, visits []journal.Pending) []wire.Item {
	newest := make(map[string]journal.Pending)
	for _, p := range visits {
		if p.Seq > newest[p.Key].Seq {
			newest[p.Key] = p
		}
	}
	type shown struct {
		wire.Item
		seq     uint64
		pending bool
	}
	var lines []shown
	others := 0.0 // the newest time of another writer's row
	for _, row := range rows {
		p, ok := newest[row.Key]
		if ok {
			p.UpdatedAt = max(p.UpdatedAt, row.UpdatedAt)
			newest[row.Key] = p
			continue
		}
		lines = append(lines, shown{Item: wire.Item{Key: row.Key, Bytes: row.ListBytes, UpdatedAt: row.UpdatedAt}, seq: row.Origin.Seq})
		if row.Origin.Seq == 0 {
			others = max(others, row.UpdatedAt)
		}
	}
	for _, p := range newest {
		if p.Op == journal.Put {
			lines = append(lines, shown{wire.Item{Key: p.Key, Bytes: p.ListBytes, UpdatedAt: p.UpdatedAt}, p.Seq, true})
		}
	}
	for i, l := range lines {
		for _, other := range lines {
			if l.seq > 0 && 0 < other.seq && other.seq <= l.seq {
				lines[i].UpdatedAt = max(lines[i].UpdatedAt, other.UpdatedAt)
				if other.pending {
					lines[i].UpdatedAt = max(lines[i].UpdatedAt, others)
				}
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b shown) int {
		return cmp.Or(cmp.Compare(b.UpdatedAt, a.UpdatedAt), cmp.Compare(b.seq, a.seq))
	})
	items := make([]wire.Item, len(lines))
	for i, l := range lines {
		items[i] = l.Item
	}
	return items
}

// Contract 10, however few of the pending writes are kept, and with entries that are written during the
// visit.
func TestOverlayIsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Custom(func(t *rapid.T) string { return "k" + strconv.Itoa(rapid.IntRange(0, 40).Draw(t, "key")) })
		at := rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(1, 100).Draw(t, "at")) })
		var rows []journal.Row
		for i, k := range rapid.SliceOfNDistinct(key, 0, 20, rapid.ID[string]).Draw(t, "rows") {
			row := journal.Row{Key: k, ListBytes: -i, UpdatedAt: at.Draw(t, "of row")}
			if rapid.Bool().Draw(t, "written here") {
				row.Origin.Seq = 2*uint64(rapid.IntRange(0, 60).Draw(t, "of origin"))*100 + uint64(2*i) + 1
			}
			rows = append(rows, row)
		}
		slices.SortFunc(rows, func(a, b journal.Row) int { return cmp.Compare(a.Key, b.Key) })
		visits := make(map[string][]journal.Pending) // of an entry, in the order of writing
		var keys []string
		again := false
		for seq := range rapid.IntRange(0, 60).Draw(t, "writes") {
			p := pendingPut(key.Draw(t, "of write"), 200*uint64(seq+1), at.Draw(t, "of put"))
			if rapid.Bool().Draw(t, "delete") {
				p = pendingDelete(p.Key, p.Seq)
			}
			past := visits[p.Key]
			if len(past) > 0 && !rapid.Bool().Draw(t, "visited before") {
				past = past[:len(past)-1]
			} else {
				keys = append(keys, p.Key)
			}
			again = again || len(past) > 0
			visits[p.Key] = append(past, p)
		}
		var order []journal.Pending
		for _, k := range rapid.Permutation(keys).Draw(t, "order") {
			order = append(order, visits[k][0])
			visits[k] = visits[k][1:]
		}
		limit := rapid.IntRange(1, 50).Draw(t, "limit")
		want := naive(rows, order)
		want = want[:min(limit, len(want))]
		got := laidOver(rows, order, limit, rapid.IntRange(0, 3).Draw(t, "spare"))
		if again { // a put that was replaced meanwhile may count among the older ones
			for i := range min(len(want), len(got)) {
				if got[i].UpdatedAt < want[i].UpdatedAt {
					t.Errorf("%s is shown with time %v, want %v", got[i].Key, got[i].UpdatedAt, want[i].UpdatedAt)
				}
				got[i].UpdatedAt = want[i].UpdatedAt
			}
		}
		if d := diff.Diff(want, append([]wire.Item{}, got...)); d != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, d)
		}
	})
}

// The memory for a listing does not grow with the pending writes.
func TestAListingOfManyPendingKeepsFew(t *testing.T) {
	const pending, limit = 1_000_000, 1000
	rows := make([]journal.Row, 1000)
	for i := range rows {
		rows[i] = journal.Row{Key: "k" + strconv.Itoa(i), UpdatedAt: 1}
	}
	o := newOverlay(rows, limit+sparePuts)
	for i := range pending {
		o.visit(pendingPut("k"+strconv.Itoa(i), uint64(i+1), 1))
	}
	o.sort()
	if kept := cap(o.recent); kept > 8*limit || len(o.newest) != len(rows) {
		t.Errorf("room for %d puts and of %d rows", kept, len(o.newest))
	}
	if items := o.over(rows, limit); len(items) != limit || items[0].Bytes != pending {
		t.Errorf("%d items, the first is %+v", len(items), items[0])
	}
}

// fakeLister is a journal that changes while a listing is made.
type fakeLister struct {
	rows     [][]journal.Row // for successive readings
	visits   []journal.Pending
	meantime []journal.Pending // further visits find these too
	states   map[string]journal.State
	readings int
	looked   []string
}

func (f *fakeLister) Listing(string, int) (journal.Listing, bool, error) {
	rows := f.rows[min(f.readings, len(f.rows)-1)]
	f.readings++
	return journal.Listing{Rows: rows, Complete: true}, rows != nil, nil
}

func (f *fakeLister) VisitPending(_ string, visit func(journal.Pending)) error {
	for _, p := range f.visits {
		visit(p)
	}
	f.visits, f.meantime = append(f.visits, f.meantime...), nil
	return nil
}

func (f *fakeLister) Lookup(id journal.ID) (journal.State, error) {
	f.looked = append(f.looked, id.Key)
	return f.states[id.Key], nil
}

func TestAListingDuringChanges(t *testing.T) {
	rows := func(keys ...string) []journal.Row {
		list := []journal.Row{}
		for _, k := range keys {
			list = append(list, journal.Row{Key: k, UpdatedAt: 1})
		}
		return list
	}
	tombstone, put := journal.State{Kind: journal.Gone, Seq: 9}, journal.State{Kind: journal.Value, Seq: 9}
	for name, test := range map[string]struct {
		from      fakeLister
		unchanged bool
		want      []string
		readings  int
		looked    []string
	}{
		"nothing changes":   {fakeLister{rows: [][]journal.Row{rows("a", "b")}}, true, []string{"a", "b"}, 1, nil},
		"nothing is known":  {fakeLister{rows: [][]journal.Row{nil}}, false, nil, 1, nil},
		"another key does":  {fakeLister{rows: [][]journal.Row{rows("a", "b")}}, false, []string{"a", "b"}, 2, nil},
		"a row goes":        {fakeLister{rows: [][]journal.Row{rows("a", "b"), rows("b")}}, false, []string{"b"}, 2, nil},
		"a put settles":     {fakeLister{rows: [][]journal.Row{rows("a"), rows("a", "b")}}, false, []string{"a", "b"}, 3, []string{"b"}},
		"it was visited":    {fakeLister{rows: [][]journal.Row{rows("a"), rows("a", "b")}, visits: []journal.Pending{pendingPut("b", 5, 1)}}, false, []string{"b", "a"}, 3, []string{"b"}},
		"a tombstone waits": {fakeLister{rows: [][]journal.Row{rows("a"), rows("a", "b")}, states: map[string]journal.State{"b": tombstone}}, false, []string{"a"}, 3, []string{"b"}},
		"a newer put waits": {fakeLister{rows: [][]journal.Row{rows("a"), rows("a", "b")}, visits: []journal.Pending{pendingPut("b", 9, 1)}, states: map[string]journal.State{"b": put}}, false, []string{"b", "a"}, 3, []string{"b"}},
		// b was written before the listing, settled before the visit, and was written again after it.
		"a settled key is put again": {fakeLister{rows: [][]journal.Row{rows("a"), rows("a", "b")}, states: map[string]journal.State{"b": put}}, false, []string{"b", "a"}, 3, []string{"b"}},
		// The tombstone was pending before, and settles before it is looked up.
		"a tombstone settles": {fakeLister{rows: [][]journal.Row{rows("a"), rows("a", "b"), rows("a")}, visits: []journal.Pending{pendingDelete("b", 9)}}, false, []string{"a"}, 3, []string{"b"}},
		// c was not looked up before it was read.
		"another row comes late": {fakeLister{rows: [][]journal.Row{rows("a"), rows("a", "b"), rows("a", "b", "c")}}, false, []string{"a", "b"}, 3, []string{"b"}},
		"the listing goes":       {fakeLister{rows: [][]journal.Row{rows("a"), nil}}, false, nil, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := list(&test.from, false, "ns", 10, func() bool { return test.unchanged })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			if l != nil {
				for _, item := range l.items {
					got = append(got, item.Key)
				}
			}
			if d := diff.Diff(test.want, got); d != "" {
				t.Errorf("keys (-want +got):\n%s", d)
			}
			if d := diff.Diff(test.looked, test.from.looked); d != "" || test.from.readings != test.readings {
				t.Errorf("%d readings, want %d; looked up (-want +got):\n%s", test.from.readings, test.readings, d)
			}
		})
	}
}

// More entries are deleted during the visit than there are spare puts.
func TestAListingDuringManyDeletes(t *testing.T) {
	from := fakeLister{rows: [][]journal.Row{{}}}
	const n = 1000
	for i := range n {
		from.visits = append(from.visits, pendingPut(fmt.Sprint("k", i), uint64(i+1), 1))
	}
	for i := range n - 10 {
		from.visits = append(from.visits, pendingDelete(fmt.Sprint("k", n-1-i), uint64(n+i+1)))
	}
	l, err := list(&from, false, "ns", 5, func() bool { return true })
	if err != nil || len(l.items) != 5 || l.items[0].Key != "k9" {
		t.Errorf("%+v, %v", l, err)
	}
}

// More entries settle after the visit, and are then deleted, than there are spare puts.
func TestAListingBeforeManyDeletes(t *testing.T) {
	const n, kept = 1000, 10
	from := fakeLister{rows: [][]journal.Row{{}, nil}, states: make(map[string]journal.State)}
	for i := range n {
		key := fmt.Sprint("k", i)
		from.visits = append(from.visits, pendingPut(key, uint64(i+1), 1))
		if i >= kept {
			from.rows[1] = append(from.rows[1], journal.Row{Key: key, UpdatedAt: 1})
			from.meantime = append(from.meantime, pendingDelete(key, uint64(n+i)))
			from.states[key] = journal.State{Kind: journal.Gone, Seq: uint64(n + i)}
		}
	}
	l, err := list(&from, false, "ns", 5, func() bool { return from.readings > 2 })
	if err != nil || len(l.items) != 5 || l.items[0].Key != fmt.Sprint("k", kept-1) {
		t.Errorf("%+v, %v", l, err)
	}
}
