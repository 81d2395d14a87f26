package journal_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// Damage ends the count. After the repair the namespace is counted again.
func TestTheCountFollowsARepair(t *testing.T) {
	mem := vfs.NewMem()
	j := open(t, mem)
	const copies, size = 12_000, 20
	rng := rand.NewChaCha8([32]byte{})
	var ids []journal.ID
	for i := range copies {
		var name [200]byte // Pebble cannot compress it much
		no(t, second(rng.Read(name[:])))
		ids = append(ids, key("copy%04d%x", i, name))
	}
	together(8, func(g int) {
		for i := g; i < copies; i += 8 {
			no(t, second(j.Fill(ids[i], observed(noise(size)), always)))
		}
	})
	no(t, j.FlushTables())
	no(t, j.DB().Compact(t.Context(), []byte("a"), []byte("z"), false)) // into several tables
	j.MarkNow()
	files := readAll(t, mem)
	name := tableFrom(t, j, "s/")
	files[name] = flip(t, files[name], "s/ns/copy")

	sizes, with := limited(1 << 40)
	j = open(t, diskWith(t, files), with, func(o *journal.Options) { *o = journal.WithoutPause(*o) })
	for range 2 {
		no(t, j.MaintainOnce())
	}
	left := int64(0)
	for _, id := range ids {
		left += int64(lookup(t, j, id).ListBytes)
	}
	if st := j.Stats(); left == 0 || st.DamagedTables != 1 {
		t.Fatalf("copies of %d bytes are left, and %d tables were damaged", left, st.DamagedTables)
	}
	sized(t, sizes, left)
}
