package journal

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A write whose own sync goes well is not acknowledged once another has failed: the
// disk is not trusted any more (contract 2).
func TestNothingIsAcknowledgedBesideAFailure(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	batch, err := j.begin([]*appending{{NewWrite: NewWrite{ID: ID{"ns", "key"}, Op: Put, Value: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	j.fail(errors.New("elsewhere"))
	if err := j.wait(batch); !errors.Is(err, ErrFailed) {
		t.Errorf("error is %v", err)
	}
}
