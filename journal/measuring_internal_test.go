package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

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

// A write that has to be measured after all keeps the copies locked: it goes by what it read of them.
func TestAWriteThatComesAgainKeepsTheCopiesLocked(t *testing.T) {
	j, sizes := limitedJournal(t, 1000)
	release := sizes.needExact("ns")
	unlocked := false
	a := &appending{
		set: j.pending, NewWrite: NewWrite{ID: ID{Namespace: "ns", Key: "k"}, Op: Delete},
		unlock: func() { unlocked = true },
	}
	if err := j.store.Update(a); !errors.Is(err, errUnmeasured) || unlocked {
		t.Errorf("the error is %v and the copies are unlocked: %v; want that it is unmeasured, and not", err, unlocked)
	}
	err := j.pending.measurer.whenMeasured(a, func() error { return j.store.Update(a) })
	if release(); err != nil || !unlocked {
		t.Errorf("the error is %v and the copies are unlocked: %v; want none, and that they are", err, unlocked)
	}
}
