package journal

import (
	"context"
	"errors"
	"fmt"
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

// limitedJournal takes writes to each namespace up to a limit.
func limitedJournal(t *testing.T, limit int64) (*Journal, *Sizes) {
	t.Helper()
	sizes := NewSizes(SizesOptions{Limit: func(string) int64 { return limit }, Logger: slog.New(slog.DiscardHandler)})
	j, err := Open(Options{Dir: "journal", FS: vfs.NewMem(), Sizes: sizes})
	fatal(t, err)
	t.Cleanup(func() { fatal(t, j.Close()) })
	fatal(t, j.Run(context.Background()))
	return j, sizes
}

func sizedPut(key string, bytes int) NewWrite {
	return NewWrite{ID: ID{Namespace: "ns", Key: key}, Op: Put, Value: "v", ListBytes: bytes}
}

// A write that would cross the limit is decided upon though ever more writes come meanwhile that are
// taken unmeasured.
func TestAWriteAcrossTheLimitDoesNotWaitForOthersToEnd(t *testing.T) {
	j, _ := limitedJournal(t, 1000)
	tries := 0
	a := &appending{set: j.pending, NewWrite: sizedPut("large", 1001), unlock: func() {}}
	err := j.pending.measurer.whenMeasured(a, func() error {
		if tries++; tries > 10 {
			return errors.New("it was neither taken nor refused in ten tries")
		}
		_, err := j.Append(sizedPut(fmt.Sprint("small-", tries), 1))
		fatal(t, err)
		return j.store.Update(a)
	})
	if full, ok := errors.AsType[*NamespaceFullError](err); !ok {
		t.Errorf("the error is %v, want that the namespace is full", err)
	} else if full.Bytes != int64(tries) {
		t.Errorf("the namespace is said to hold %d bytes, want %d", full.Bytes, tries)
	}
	before := j.pending.index.Get(ID{Namespace: "ns", Key: "small-1"})
	_, err = j.Append(sizedPut("later", 1))
	fatal(t, err)
	if later := j.pending.index.Get(ID{Namespace: "ns", Key: "later"}); before.Unmeasured() || !later.Unmeasured() {
		t.Errorf("unmeasured are the write from before: %v, and the one afterwards: %v; want only that one",
			before.Unmeasured(), later.Unmeasured())
	}
}

// While somebody has a namespace counted, a write that the limit allows does not wait for the end.
func TestWritesGoOnWhileANamespaceIsCounted(t *testing.T) {
	for name, bytes := range map[string]int{"far from the limit": 1, "near it": 900} {
		t.Run(name, func(t *testing.T) {
			j, sizes := limitedJournal(t, 1000)
			_, err := j.Append(sizedPut("unmeasured", 10))
			fatal(t, err)
			sp := sizes.spaces["ns"]
			sp.exacting, sp.walking = 1, make(chan struct{})
			_, err = j.Append(sizedPut("k", bytes)) // for ever, if it waits
			fatal(t, err)
			if sp.unmeasured != 1 {
				t.Errorf("%d entries are unmeasured, want the one from before", sp.unmeasured)
			}
			sp.exacting, sp.walking = 0, nil
		})
	}
}
