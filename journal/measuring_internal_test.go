package journal

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/store"
)

// openSized opens a journal of one entry, of which upstream holds 50 bytes.
func openSized(t *testing.T, limit func(string) int64) (*Journal, *Sizes, ID) {
	t.Helper()
	sizes := NewSizes(SizesOptions{Limit: limit, Logger: slog.New(slog.DiscardHandler)})
	j, err := Open(Options{Dir: "journal", FS: vfs.NewMem(), Sizes: sizes})
	fatal(t, err)
	t.Cleanup(func() { fatal(t, j.Close()) })
	fatal(t, j.Run(t.Context()))
	id := ID{Namespace: "ns", Key: "k"}
	_, err = j.Fill(id, &Observation{Value: strings.Repeat("v", 50), ListBytes: 50, UpdatedAt: 1}, func() bool { return true })
	fatal(t, err)
	return j, sizes, id
}

// An attempt that ends takes away what is settled of the entry. A write to the entry that comes just
// before counts alone all the same.
func TestAWriteThatComesAsAnAttemptEndsCountsAlone(t *testing.T) {
	j, sizes, id := openSized(t, func(string) int64 { return 1 << 40 })
	fatal(t, j.Through.end(&retiring{w: Write{ID: id}}, func(settledCopy) (func(*store.Tx), error) {
		_, err := j.Append(NewWrite{ID: id, Op: Put, Value: strings.Repeat("w", 90), ListBytes: 90})
		fatal(t, err)
		return j.copies.forget(id)
	}))
	if got := sizes.Of("ns").Bytes; got != 90 {
		t.Errorf("the namespace holds %d bytes, want 90", got)
	}
}

// contract 19: a delete that has to be measured after all is no older than a copy that comes meanwhile.
func TestADeleteThatIsMeasuredLateIsNoOlderThanTheCopy(t *testing.T) {
	const later = 1e11 // Unix seconds
	var refused, came atomic.Bool
	var j *Journal
	var id ID
	limit := func(string) int64 {
		if refused.Load() && !came.Swap(true) {
			_, err := j.Fill(id, &Observation{Value: "v", ListBytes: 1, UpdatedAt: later}, func() bool { return true })
			fatal(t, err)
		}
		return 1 << 40
	}
	var sizes *Sizes
	j, sizes, id = openSized(t, limit)
	w, err := j.Append(NewWrite{ID: id, Op: Delete, If: func(uint64) bool {
		sizes.mu.Lock()
		defer sizes.mu.Unlock()
		sizes.deferring = false
		refused.Store(true)
		return true
	}})
	fatal(t, err)
	if !came.Load() || w.UpdatedAt < later {
		t.Errorf("the delete is of %v, and the copy of %v", w.UpdatedAt, later)
	}
}
