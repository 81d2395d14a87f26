package journal_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// brute is what the namespace holds, by everything that can be read of it.
func brute(t testing.TB, j *journal.Journal, keys []journal.ID) (sum int64) {
	t.Helper()
	pending := make(map[string]int)
	no(t, j.VisitPending("ns", func(p journal.Pending) {
		pending[p.Key] = 0
		if p.Op == journal.Put {
			pending[p.Key] = p.ListBytes
		}
	}))
	rows := make(map[string]int)
	l, _, err := j.Listing("ns", allRows)
	no(t, err)
	for _, r := range l.Rows {
		rows[r.Key] = r.ListBytes
	}
	for _, id := range keys {
		n, ok := pending[id.Key]
		if !ok {
			n, ok = rows[id.Key]
		}
		if state := lookup(t, j, id); !ok && state.Kind == journal.Settled {
			n = state.ListBytes
		}
		sum += int64(n)
	}
	return sum
}

// exact compares the count with what can be read.
func exact(t *testing.T, j *journal.Journal, sizes *journal.Sizes, keys []journal.ID, when string) {
	t.Helper()
	if got, want := sizes.Of("ns").Bytes, brute(t, j, keys); got != want {
		t.Fatalf("%s: the count is %d, and %d can be read", when, got, want)
	}
}

// Whatever happens to entries, the count is that of what can be read: after writes that
// coalesce, settle or die, after answers of upstream's, and after restarts.
func TestSizesAreWhatIsKnown(t *testing.T) {
	for seed := range uint64(8 / fewer) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomSizes(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func randomSizes(t *testing.T, random *rand.Rand) {
	fs := vfs.NewMem()
	open := func() (*journal.Journal, *journal.Sizes) {
		sizes, _ := limited(1 << 40)
		j, err := journal.Open(journal.Options{Dir: dir, FS: fs, Sizes: sizes})
		no(t, err)
		no(t, j.Run(t.Context()))
		return j, sizes
	}
	keys := make([]journal.ID, 8)
	for i := range keys {
		keys[i] = key("%d", i)
	}
	j, sizes := open()
	defer func() { no(t, j.Close()) }()
	for step := range 400 {
		id, bytes := keys[random.IntN(len(keys))], random.IntN(100)
		what := ""
		newest, waits, err := j.Newest(id)
		no(t, err)
		switch random.IntN(13) {
		case 0, 1, 2:
			what = "put"
			no(t, tryPut(j, id, bytes))
		case 3:
			what = "delete"
			remove(t, j, id)
		case 4, 5, 6:
			if what = "settle"; waits {
				no(t, j.Settle(newest))
			}
		case 7:
			if what = "dead letter"; waits {
				no(t, j.DeadLetter(newest, journal.Failure{Status: 400, InDoubt: bytes < 50}))
			}
		case 12:
			if what = "lose"; waits {
				no(t, j.Fence.Lose(newest, journal.Observation{Value: "theirs", ListBytes: bytes, UpdatedAt: float64(step)}, "later"))
			}
		case 8:
			if what = "answer"; !waits {
				show(t, j, id, bytes-1)
			}
		case 9:
			what = "listing"
			var rows []journal.Row
			for _, id := range keys {
				if random.IntN(2) == 0 {
					rows = append(rows, journal.Row{Key: id.Key, ListBytes: random.IntN(100), UpdatedAt: float64(step)})
				}
			}
			list(t, j, random.IntN(2) == 0, rows...)
		case 10:
			what = "retry"
			dead, err := j.DeadLetters(0, 1)
			no(t, err)
			if len(dead) > 0 {
				_, err = j.Retry(dead[0].Seq, journal.AnyWrite)
				no(t, err)
			}
		case 11:
			what = "restart"
			no(t, j.Close())
			j, sizes = open()
		}
		if random.IntN(4) == 0 { // to ask has the entries measured
			exact(t, j, sizes, keys, fmt.Sprintf("step %d, %s of %s", step, what, id.Key))
		}
	}
}
