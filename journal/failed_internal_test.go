package journal

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// gathers has a write gather that nobody makes durable before end is called.
func gathers(t *testing.T, j *Journal) (v *version, waiting ticket, end func()) {
	t.Helper()
	end = held(j)
	w := putOf("key", "1")
	v, waiting, err := j.enlist(&w)
	if err != nil {
		t.Fatal(err)
	}
	return v, waiting, end
}

// A write whose own sync goes well is not acknowledged once another has failed: the
// disk is not trusted any more (contract 2).
func TestNothingIsAcknowledgedBesideAFailure(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	_, waiting, end := gathers(t, j)
	g := j.next() // applied
	j.fail(errors.New("elsewhere"))
	j.finish(g)
	if err := j.await(waiting); !errors.Is(err, ErrFailed) {
		t.Errorf("error is %v", err)
	}
	end()
}

// What had gathered when the disk failed is not handed to Pebble any more, which may be
// about to panic (contract 2).
func TestNothingIsHandedOnAfterAFailure(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	v, waiting, end := gathers(t, j)
	j.fail(errors.New("elsewhere"))
	end()
	if err := j.await(waiting); !errors.Is(err, ErrFailed) {
		t.Errorf("error is %v", err)
	}
	if _, _, err := j.db.Get(pendingKey(ID{"ns", "key"}, v.seq)); !errors.Is(err, pebble.ErrNotFound) {
		t.Errorf("the record in the store: %v", err)
	}
}
