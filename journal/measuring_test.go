package journal_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// A write to a known entry counts only the difference, though nobody looks at the entry while the
// limit is far: what is shown is exact, and so is the decision once the limit is near.
func TestWritesToKnownEntriesCountTheDifference(t *testing.T) {
	sizes, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	for i := range 6 {
		show(t, j, key("%d", i), 100)
	}
	no(t, tryPut(j, key("0"), 90))
	sized(t, sizes, 590)
	for round := range 3 { // more than the limit, if all were new
		for i := range 6 {
			no(t, tryPut(j, key("%d", i), 100+round))
		}
	}
	sized(t, sizes, 612)
	no(t, tryPut(j, key("new"), 388))
	refusedAsFull(t, tryPut(j, key("0"), 103))
	for i := range 6 {
		settle(t, j, key("%d", i))
	}
	sized(t, sizes, 1000)
}

// A namespace is only said to be nearly full if it is.
func TestUnmeasuredEntriesMakeNoNamespaceNearlyFull(t *testing.T) {
	var limit atomic.Int64
	limit.Store(10_000)
	sizes, with := limitedBy(func(string) int64 { return limit.Load() }, slog.New(slog.DiscardHandler))
	j := open(t, vfs.NewMem(), with)
	show(t, j, key("a"), 500)
	no(t, tryPut(j, key("a"), 500))
	limit.Store(1000)
	sizes.Changed() // 1000, if a were new
	if near := sizes.NearlyFull(); len(near) != 0 {
		t.Errorf("nearly full are %v", near)
	}
	limit.Store(10_000)
	no(t, tryPut(j, key("b"), 10))
	show(t, j, key("c"), 400)
	no(t, tryPut(j, key("c"), 400))
	limit.Store(1000)
	sizes.Changed()
	if near := sizes.NearlyFull(); near["ns"] != (journal.NamespaceSize{Bytes: 910, Limit: 1000}) {
		t.Errorf("nearly full are %v, want ns with 910 bytes", near)
	}
}

// The journal counts upstream's answers and listings also for an entry with a pending write that it took
// without a look at the entry.
func TestAnswersForUnmeasuredEntriesCount(t *testing.T) {
	for name, answer := range map[string]func(*journal.Journal){
		"a value":              func(j *journal.Journal) { show(t, j, key("a"), 70) },
		"absence":              func(j *journal.Journal) { show(t, j, key("a"), -1) },
		"a listing":            func(j *journal.Journal) { list(t, j, true, journal.Row{Key: "a", ListBytes: 30, UpdatedAt: 1}) },
		"a listing without it": func(j *journal.Journal) { list(t, j, true) },
		"an incomplete one":    func(j *journal.Journal) { list(t, j, false) },
	} {
		t.Run(name, func(t *testing.T) {
			sizes, with := limited(1 << 40)
			j := open(t, vfs.NewMem(), with)
			list(t, j, true, journal.Row{Key: "a", ListBytes: 50, UpdatedAt: 1}, journal.Row{Key: "b", ListBytes: 5, UpdatedAt: 1})
			show(t, j, key("a"), 40)
			no(t, tryPut(j, key("a"), 200))
			answer(j)
			want := brute(t, j, []journal.ID{key("a"), key("b")})
			sized(t, sizes, want)
			settle(t, j, key("a"))
			sized(t, sizes, want)
		})
	}
}

// A size can be asked for when the journal is closed, though nothing can be measured any more.
func TestSizesOutliveTheJournal(t *testing.T) {
	sizes, with := limited(10_000)
	o := journal.Options{Dir: dir, FS: vfs.NewMem()}
	with(&o)
	j, err := journal.Open(o)
	no(t, err)
	no(t, j.Run(t.Context()))
	show(t, j, key("a"), 50)
	no(t, tryPut(j, key("a"), 90))
	no(t, j.Close())
	if got := sizes.Of("ns").Bytes; got < 90 || got > 140 {
		t.Errorf("the namespace holds %d bytes, want 90, or at most 140", got)
	}
	sizes.Learn("ns")
}

// Sizes that are asked for while writes come and settle end at what can be read.
func TestSizesAreExactUnderLoad(t *testing.T) {
	sizes, with := limited(20_000)
	j := open(t, vfs.NewMem(), with)
	keys := make([]journal.ID, 64)
	for i := range keys {
		keys[i] = key("%d", i)
	}
	var refused atomic.Int64
	together(6, func(w int) {
		for i := range 200 {
			id := keys[(i*7+w)%len(keys)]
			switch w {
			case 0:
				newest, ok, err := j.Newest(id)
				if err == nil && ok {
					err = j.Settle(newest)
				}
				if err != nil {
					t.Error(err)
				}
			case 1:
				if got := sizes.Of("ns"); got.Bytes > 20_000 {
					t.Errorf("the namespace holds %d bytes, more than its limit", got.Bytes)
				}
			default:
				if tryPut(j, id, 1+(i*w*37)%600) != nil {
					refused.Add(1)
				}
			}
		}
	})
	sized(t, sizes, brute(t, j, keys))
	if refused.Load() == 0 {
		t.Error("no write was refused: the limit is not near")
	}
}

// A recount finds the same, also of entries with a write that was taken without a look.
func TestARecountKeepsUnmeasuredEntries(t *testing.T) {
	sizes, with := limited(1 << 40)
	j := open(t, vfs.NewMem(), with)
	keys := make([]journal.ID, 10)
	for i := range keys {
		keys[i] = journal.ID{Namespace: "ns", Key: fmt.Sprint(i)}
		show(t, j, keys[i], 10*i)
	}
	for _, id := range keys[:5] {
		no(t, tryPut(j, id, 7))
	}
	no(t, j.Run(t.Context()))
	sized(t, sizes, brute(t, j, keys))
	for _, id := range keys[:5] {
		settle(t, j, id)
	}
	sized(t, sizes, brute(t, j, keys))
}
