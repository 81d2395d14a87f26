package proxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// k was written before u, but reached upstream, and got its time there, after u was written: u is
// still the newer one, as it will be upstream.
func TestPendingIsNewerThanSettled(t *testing.T) {
	put := func(key string, seq uint64, at float64) journal.Pending {
		return journal.Pending{ID: journal.ID{Namespace: "ns", Key: key}, Op: journal.Put, Seq: seq, ListBytes: 1, UpdatedAt: at}
	}
	settled := []journal.Row{
		{Key: "k", ListBytes: 1, UpdatedAt: 100.130}, {Key: "old", ListBytes: 1, UpdatedAt: 99}, {Key: "older", ListBytes: 1, UpdatedAt: 98},
	}
	got := overlay(settled, []journal.Pending{put("u", 2, 100.090), put("w", 3, 100.095), put("older", 4, 97)})
	want := []wire.Item{
		{Key: "older", Bytes: 1, UpdatedAt: 100.130},
		{Key: "w", Bytes: 1, UpdatedAt: 100.130},
		{Key: "u", Bytes: 1, UpdatedAt: 100.130},
		{Key: "k", Bytes: 1, UpdatedAt: 100.130},
		{Key: "old", Bytes: 1, UpdatedAt: 99},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
