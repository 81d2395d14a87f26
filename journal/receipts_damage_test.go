package journal_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// A start that meets damaged receipts still finds those in intact tables.
func TestReceiptsBesideDamagedOnes(t *testing.T) {
	few := func(o *journal.Options) { journal.KeepReceipts(o, 32*600) } // a generation holds all of them
	fs := vfs.NewMem()
	j := open(t, fs, few)
	bury := func(from, to int) (ended []journal.Write) {
		for i := from; i < to; i++ {
			w := put(t, j, key("%d", i), "1")
			no(t, j.DeadLetter(w, journal.Failure{Reason: noise(8 << 10)}))
			no(t, j.Discard(w.Seq))
			ended = append(ended, w)
		}
		no(t, j.FlushTables())
		return ended
	}
	sound := bury(0, 200)
	bury(200, 600)
	no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false)) // into several tables
	name := tableFrom(t, j, "r/")
	j.MarkNow()
	files := readAll(t, fs)
	files[name] = flip(t, files[name], "r/\x00")
	j = open(t, diskWith(t, files), few, func(o *journal.Options) { *o = journal.WithoutPause(*o) })
	for _, w := range sound {
		expectReceipt(t, j, w, journal.ReceiptDead, journal.Write{}, noise(8<<10))
	}
	if st := j.Stats(); st.Receipts < len(sound) {
		t.Errorf("%d receipts are kept", st.Receipts)
	}
}
