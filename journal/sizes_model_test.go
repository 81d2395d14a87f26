package journal_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// brute returns the size of the namespace by reading all entries.
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

// upstreamEntry is an entry that upstream holds.
type upstreamEntry struct {
	bytes     int
	updatedAt float64
}

// sizedWorld is a journal of one namespace with a limit, and the true contents of upstream.
type sizedWorld struct {
	*testing.T
	random   *rand.Rand
	fs       vfs.FS
	journal  *journal.Journal
	sizes    *journal.Sizes
	upstream map[string]upstreamEntry
	step     int
}

const worldLimit = 2000

func (w *sizedWorld) open() {
	w.sizes, _ = limited(worldLimit)
	j, err := journal.Open(journal.Options{Dir: dir, FS: w.fs, Sizes: w.sizes})
	no(w, err)
	no(w, j.Run(w.Context()))
	w.journal = j
}

// truth returns the size of the namespace upstream once everything pending is flushed.
func (w *sizedWorld) truth() (sum int64) {
	all := make(map[string]int)
	for k, h := range w.upstream {
		all[k] = h.bytes
	}
	no(w, w.journal.VisitPending("ns", func(p journal.Pending) { all[p.Key] = p.ListBytes }))
	for _, n := range all {
		sum += int64(n)
	}
	return sum
}

// settle makes upstream accept an entry's pending write.
func (w *sizedWorld) settle(id journal.ID) {
	p, ok, err := w.journal.Newest(id)
	no(w, err)
	if !ok {
		return
	}
	no(w, w.journal.Settle(p))
	w.upstream[id.Key] = upstreamEntry{p.ListBytes, p.UpdatedAt}
	if p.Op == journal.Delete {
		delete(w.upstream, id.Key)
	}
}

// list makes upstream list its newest keys.
func (w *sizedWorld) list(most int) {
	keys := slices.SortedFunc(maps.Keys(w.upstream), func(a, b string) int {
		return cmp.Compare(w.upstream[b].updatedAt, w.upstream[a].updatedAt)
	})
	var rows []journal.Row
	for _, k := range keys[:min(most, len(keys))] {
		rows = append(rows, journal.Row{Key: k, ListBytes: w.upstream[k].bytes, UpdatedAt: w.upstream[k].updatedAt})
	}
	slices.SortFunc(rows, func(a, b journal.Row) int { return cmp.Compare(a.Key, b.Key) })
	list(w, w.journal, len(keys) <= most, rows...)
}

// answer makes upstream answer a GET.
func (w *sizedWorld) answer(id journal.ID) {
	if _, waits, err := w.journal.Newest(id); err != nil || waits {
		no(w, err)
		return
	}
	var o *journal.Observation
	if h, ok := w.upstream[id.Key]; ok {
		o = &journal.Observation{Value: strings.Repeat("f", h.bytes), ListBytes: h.bytes, UpdatedAt: h.updatedAt}
	}
	no(w, second(w.journal.Fill(id, o, always)))
}

// put checks the decision on a write against the true size of the namespace: see
// [TestTheLimitIsKeptAbout].
func (w *sizedWorld) put(id journal.ID, bytes int) {
	before, seen := w.truth(), w.sizes.Of("ns").Bytes
	err := tryPut(w.journal, id, bytes)
	after := w.truth()
	switch {
	case err != nil:
		refusedAsFull(w, err)
		if before < worldLimit*80/100 {
			w.Fatalf("step %d: a write of %d bytes was refused when the namespace held %d of %d bytes: %v", w.step, bytes, before, worldLimit, err)
		}
	case after > before && after > worldLimit*120/100:
		w.Fatalf("step %d: a write of %d bytes was taken when the namespace held %d of %d bytes, and seemed to hold %d",
			w.step, bytes, before, worldLimit, seen)
	}
}

// In any case, the journal accepts no write that makes the namespace much larger than its limit. It
// refuses none while the namespace holds less than 80 % of its limit. The count is exact once everything
// has settled and a complete listing has come.
func TestTheLimitIsKeptAbout(t *testing.T) {
	for seed := range uint64(16 / fewer) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &sizedWorld{T: t, random: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewMem(), upstream: make(map[string]upstreamEntry)}
			w.open()
			defer func() { no(t, w.journal.Close()) }()
			ids := make([]journal.ID, 60)
			for i := range ids {
				ids[i] = key("%d", i)
			}
			for w.step = range 1000 {
				w.once(ids)
				no(t, w.journal.MaintainOnce())
			}
			for _, id := range ids {
				w.settle(id)
			}
			w.list(len(ids))
			sized(t, w.sizes, brute(t, w.journal, ids))
			if got, want := w.sizes.Of("ns").Bytes, w.truth(); got != want {
				t.Errorf("the namespace holds %d bytes, and seems to hold %d", want, got)
			}
		})
	}
}

func (w *sizedWorld) once(ids []journal.ID) {
	id := ids[w.random.IntN(len(ids))]
	switch w.random.IntN(40) {
	default:
		w.put(id, w.random.IntN(100))
	case 0, 1:
		remove(w, w.journal, id)
	case 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15:
		w.settle(id)
	case 16:
		for _, id := range ids {
			w.settle(id)
		}
	case 17: // upstream refuses it
		p, waits, err := w.journal.Newest(id)
		no(w, err)
		if waits {
			if w.random.IntN(2) == 0 {
				no(w, second(w.journal.MarkSent(p)))
			}
			no(w, w.journal.DeadLetter(p, journal.Failure{Status: 400}))
		}
	case 18, 19, 20:
		w.answer(id)
	case 21:
		w.list(len(ids))
	case 22:
		w.list(20)
	case 23:
		no(w, w.journal.Close())
		w.open()
	case 24, 25, 26:
		no(w, w.sizes.CountLoose())
	}
}
