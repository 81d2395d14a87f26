package entries

import (
	"cmp"
	"slices"
	"strconv"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// inListOrder sorts rows as a LIST shows them: the newest time comes first, and no own write has an
// older time than the own writes before it.
func inListOrder(rows []Row) []Row {
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.Origin.Seq, b.Origin.Seq) })
	newest := 0.0
	for i := range rows {
		if r := &rows[i]; r.Origin.Seq != 0 {
			newest = max(newest, r.UpdatedAt)
			r.UpdatedAt = newest
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.UpdatedAt, a.UpdatedAt), cmp.Compare(b.Origin.Seq, a.Origin.Seq), cmp.Compare(a.Key, b.Key))
	})
	return rows
}

// A bounded listing is a prefix of the whole one, and knows if it is whole.
func TestNewestRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Row
		for i := range rapid.IntRange(0, 60).Draw(t, "rows") {
			row := Row{Key: "k" + strconv.Itoa(i), ListBytes: i, UpdatedAt: float64(rapid.IntRange(1, 30).Draw(t, "at"))}
			if rapid.Bool().Draw(t, "written here") {
				row.Origin.Seq = uint64(rapid.IntRange(0, 100).Draw(t, "seq")*100 + i + 1)
			} else {
				row.UpdatedAt += float64(i) / 100 // with equal times, any row may come first
			}
			all = append(all, row)
		}
		newest := &newestRows{most: rapid.IntRange(1, 20).Draw(t, "most")}
		for _, row := range all {
			if err := newest.add(row); err != nil {
				t.Fatal(err)
			}
		}
		got := newest.rows()
		if !slices.IsSortedFunc(got, func(a, b Row) int { return cmp.Compare(a.Key, b.Key) }) {
			t.Fatalf("not in order of the keys: %v", got)
		}
		if newest.dropped != (len(got) < len(all)) || len(got) > 2*newest.most {
			t.Fatalf("%d of %d rows, at most %d of each kind, dropped: %v", len(got), len(all), newest.most, newest.dropped)
		}
		most := min(newest.most, len(all))
		if d := diff.Diff(inListOrder(all)[:most], inListOrder(got)[:most]); d != "" {
			t.Fatalf("(-all +newest):\n%s", d)
		}
	})
}
