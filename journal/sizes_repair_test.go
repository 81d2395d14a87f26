package journal_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// keepCopies keeps forty copies, in a separate table.
func keepCopies(t *testing.T, j *journal.Journal) {
	t.Helper()
	for i := range 40 {
		value := noise(8 << 10)
		no(t, second(j.Fill(key("copy%02d", i), &journal.Observation{Value: value, ListBytes: len(value), UpdatedAt: 1}, always)))
	}
	no(t, j.FlushTables())
}

// A repair drops copies. Their entries still count, and only once: an entry that upstream shows again
// replaces its former share.
func TestARepairKeepsTheSizes(t *testing.T) {
	mem := vfs.NewMem()
	sizes, with := limited(1 << 40)
	j := open(t, mem, with)
	keepCopies(t, j)
	before := sizes.Of("ns").Bytes
	damageCopies(t, mem)
	for i := range 40 {
		lookup(t, j, key("copy%02d", i)) // this meets the damage
	}
	no(t, j.MaintainOnce())
	expect(t, j, key("copy00"), journal.Unknown, "")
	sized(t, sizes, before)
	show(t, j, key("copy00"), 8<<10)
	sized(t, sizes, before)
	no(t, tryPut(j, key("copy00"), 8<<10))
	settle(t, j, key("copy00"))
	sized(t, sizes, before)
}

// Damage ends the count early. The bytes counted before it still count after the repair.
func TestDamageEndsTheCountEarly(t *testing.T) {
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
	if got := sizes.Of("ns").Bytes; got < left || got > copies*size {
		t.Errorf("the namespace holds %d bytes, want from %d to %d", got, left, copies*size)
	}
}
