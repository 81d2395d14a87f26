package journal_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

func listedRow(key string, bytes int) journal.Row {
	return journal.Row{Key: key, ListBytes: bytes, UpdatedAt: 1}
}

// In a full namespace, a delete makes room before it settles, even if only the listing shows its entry.
func TestAPendingDeleteMakesRoom(t *testing.T) {
	sizes, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	list(t, j, true, listedRow("a", 600), listedRow("b", 350))
	sized(t, sizes, 950)
	refusedAsFull(t, tryPut(j, key("c"), 100))
	remove(t, j, key("b"))
	no(t, tryPut(j, key("c"), 100))
	sized(t, sizes, 700)
	settle(t, j, key("b"))
	sized(t, sizes, 700)
}

// The bytes that pending writes replace count once, even if a listing shows them only after the writes
// were made.
func TestAListingShowsWhatPendingWritesReplace(t *testing.T) {
	sizes, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	no(t, tryPut(j, key("a"), 400))
	no(t, tryPut(j, key("b"), 310))
	list(t, j, true, listedRow("a", 400), listedRow("b", 300), listedRow("c", 100))
	sized(t, sizes, 810)
	list(t, j, true, listedRow("a", 400), listedRow("b", 300), listedRow("c", 100))
	sized(t, sizes, 810)
	no(t, tryPut(j, key("d"), 190))
	for _, name := range []string{"a", "b", "d"} {
		settle(t, j, key("%s", name))
		sized(t, sizes, 1000)
	}
}

// After upstream's refusal, deletes make as much room as they free, even if the count is too low.
func TestDeletesMakeRoomAfterUpstreamsRefusal(t *testing.T) {
	sizes, with := limited(0)
	j := open(t, vfs.NewMem(), with)
	list(t, j, false, listedRow("a", 100), listedRow("b", 100))
	for i := range 5 { // entries of others, which upstream did not list before
		show(t, j, key("%d", i), 100)
	}
	for _, name := range []string{"a", "b", "0", "1"} {
		remove(t, j, key("%s", name))
		settle(t, j, key("%s", name))
	}
	sizes.Learn("ns")
	no(t, sizes.CountLoose())
	refusedAsFull(t, tryPut(j, key("new"), 1))
	remove(t, j, key("3"))
	settle(t, j, key("3"))
	refusedAsFull(t, tryPut(j, key("new"), 101))
	no(t, tryPut(j, key("new"), 100))
}

// If upstream refuses a write before the disk is counted, the learned limit includes the entries on
// disk.
func TestUpstreamsRefusalBeforeTheDiskIsCounted(t *testing.T) {
	fs := vfs.NewCrashableMem()
	_, with := limited(0)
	j := open(t, fs, with)
	no(t, tryPut(j, key("settled"), 500))
	settle(t, j, key("settled"))
	no(t, tryPut(j, key("pending"), 200))

	sizes, with := limited(0)
	j = reopen(t, crash(fs), with)
	if _, ok, err := j.Newest(key("pending")); err != nil || !ok {
		t.Fatal(ok, err)
	}
	sizes.Learn("ns")
	no(t, j.Run(t.Context()))
	if got := sizes.Of("ns"); got.Bytes != 700 || got.Limit != 700 {
		t.Errorf("the size is %+v, want 700 bytes of 700", got)
	}
	remove(t, j, key("settled"))
	no(t, tryPut(j, key("new"), 500))
}
