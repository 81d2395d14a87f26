package journal

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func openInternal(t *testing.T, opts Options) *Journal {
	t.Helper()
	opts.Dir, opts.FS = "j", vfs.NewMem()
	j, err := Open(opts)
	if err == nil {
		err = j.Run(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// A listing is removed under its namespace's copies lock: whoever was bringing it forward
// meanwhile would leave a listing of one row in its place.
func TestListingIsRemovedUnderTheCopiesLock(t *testing.T) {
	j := openInternal(t, Options{})
	if err := j.BeginListing("ns").Commit([]Row{{Key: "a", ListBytes: 1, UpdatedAt: 20}}, true); err != nil {
		t.Fatal(err)
	}
	snapshot := j.store.Snapshot()
	visited := 0
	err := j.evictor.visitListings(t.Context(), snapshot, func(chunk []copyOnDisk) error {
		visited++
		if !j.CopiesLocked("ns") {
			t.Errorf("%v is visited without the lock", chunk[0].id)
		}
		return nil
	})
	if err = errors.Join(err, snapshot.Close()); err != nil || visited != 1 || j.CopiesLocked("ns") {
		t.Errorf("%d listings were visited, %v; the lock is still held: %v", visited, err, j.CopiesLocked("ns"))
	}
}
