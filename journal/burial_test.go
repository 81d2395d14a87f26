package journal

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Readers of an entry whose write was buried wait until that is durable (contract 7).
func TestReadersWaitForTheBurial(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	id := ID{"ns", "key"}
	mustAppend(t, j, id, "1")
	w, _, _ := j.Newest(id)
	waiting, reveal, err := j.retire(w, true, func(*pebble.Batch, *version) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan State)
	go func() {
		state, _ := j.Lookup(id)
		_, _, _ = j.Listing("ns")
		read <- state
	}()
	select {
	case <-read:
		t.Fatal("the reader did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	if err := j.await(waiting); err != nil {
		t.Fatal(err)
	}
	reveal()
	if state := <-read; state.Kind != Unknown {
		t.Errorf("state is %+v", state)
	}
	if len(j.filling) != 0 {
		t.Error("readers go on waiting")
	}
}
