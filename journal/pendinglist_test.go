package journal_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/journal"
)

// A short list is a prefix of all pending writes, regardless of what happened to other writes.
func TestPendingListOfRandomStates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fs := vfs.NewMem()
	j := open(t, fs)
	var ids []journal.ID
	for i := range 60 {
		ids = append(ids, journal.ID{Namespace: fmt.Sprint("n", i%9), Key: fmt.Sprint(i)})
	}
	for step := range 600 {
		id := ids[rng.IntN(len(ids))]
		w, ok, err := j.Newest(id)
		no(t, err)
		switch op := rng.IntN(100); {
		case op < 45:
			put(t, j, id, fmt.Sprint(step))
		case op < 85 && ok:
			no(t, j.Settle(w))
		case op == 99:
			no(t, j.Close())
			j = open(t, fs)
		}
		if step%10 > 0 {
			continue
		}
		for _, ns := range []string{"", id.Namespace} {
			var all []journal.Pending
			for i := range 9 {
				if each := fmt.Sprint("n", i); ns == "" || ns == each {
					no(t, j.VisitPending(each, func(p journal.Pending) { all = append(all, p) }))
				}
			}
			want := j.PendingList(ns, len(all)+1)
			if len(want) != len(all) {
				t.Fatalf("step %d: %d of %d", step, len(want), len(all))
			}
			byAge := func(a, b journal.Pending) bool { return a.Since < b.Since || a.Since == b.Since && a.Seq < b.Seq }
			if diff := cmp.Diff(all, want, cmpopts.SortSlices(byAge)); diff != "" {
				t.Fatal(diff)
			}
			for limit := range len(all) + 1 {
				if diff := cmp.Diff(want[:limit], j.PendingList(ns, limit), cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("step %d, namespace %q, limit %d: %s", step, ns, limit, diff)
				}
			}
		}
	}
}
