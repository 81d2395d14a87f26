package journal_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/botwired/botwired/journal"
)

// A journal's memory grows only with the number of pending writes and of namespaces, by at most this
// many bytes each. Settled entries are on disk.
const (
	settledMemory   = 64  // bytes for a settled entry: remains that are collected later
	namespaceMemory = 512 // bytes for a namespace of settled entries: its size, in a map that may just have grown
)

// grown is a growing journal on the real disk.
type grown struct {
	*journal.Journal
	entries int
}

func newGrown(t *testing.T) *grown {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: t.TempDir()})
	no(t, err)
	ctx, stop := context.WithCancel(context.Background())
	no(t, j.Run(ctx))
	maintained := make(chan error, 1)
	go func() { maintained <- j.Maintain(ctx) }()
	t.Cleanup(func() {
		stop()
		no(t, <-maintained)
		no(t, j.Close())
	})
	return &grown{Journal: j}
}

// grow writes entries to the given number of namespaces, and settles them if settles is true.
func (g *grown) grow(t *testing.T, entries, namespaces int, settles bool) {
	t.Helper()
	var next atomic.Int64
	next.Store(int64(g.entries))
	g.entries += entries
	together(256, func(int) {
		for i := int(next.Add(1)) - 1; i < g.entries; i = int(next.Add(1)) - 1 {
			w, err := g.Append(journal.NewWrite{
				ID: journal.ID{Namespace: fmt.Sprint("agent-", i%namespaces), Key: fmt.Sprint("item-", i)},
				Op: journal.Put, Value: strings.Repeat("v", 100), ListBytes: 100,
			})
			if err == nil && settles {
				err = g.Settle(w)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
}

// memory returns the bytes allocated since profiled that are still in use. It ignores the buffers that
// Pebble manages itself: they are bounded, and are in Go's heap only without a C compiler.
func memory() (inUse int64) {
	for range 3 { // a profile lags two collections behind
		runtime.GC()
	}
	records := make([]runtime.MemProfileRecord, 1<<16)
	n, _ := runtime.MemProfile(records, false)
	for i := range records[:n] {
		if r := &records[i]; r.InUseObjects() > 0 && !isPebbles(r.Stack()) {
			each := float64(r.AllocBytes) / float64(r.AllocObjects)
			inUse += int64(float64(r.InUseBytes()) / (1 - math.Exp(-each/profileRate))) // as pprof does
		}
	}
	return inUse
}

// profileRate is the average number of allocated bytes for each recorded one. A larger rate makes the
// sum inaccurate; a smaller one makes the test take minutes.
const profileRate = 1 << 10

// isPebbles reports whether Pebble has allocated a buffer.
func isPebbles(stack []uintptr) bool {
	for frames := runtime.CallersFrames(stack); ; {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "/pebble/v2/internal/manual.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// profiled records allocations until the test ends.
func profiled(t *testing.T) {
	t.Helper()
	was := runtime.MemProfileRate
	runtime.MemProfileRate = profileRate
	t.Cleanup(func() { runtime.MemProfileRate = was })
}

// grows fails the test if do takes more than most bytes for each element.
func grows(t *testing.T, what string, elements, most int64, do func()) {
	t.Helper()
	before := memory()
	do()
	by := memory() - before
	t.Logf("%s: %d bytes each", what, by/elements)
	if by > elements*most {
		t.Errorf("%s: %d take %d bytes each, want %d at most", what, elements, by/elements, most)
	}
}

func TestMemoryGrowsByPendingWritesAndNamespacesAlone(t *testing.T) {
	const few, many = 1000, 10_000 / fewer
	profiled(t)
	g := newGrown(t)
	g.grow(t, few, few, true)
	grows(t, "settled entries", many, settledMemory, func() { g.grow(t, many, few, true) })
	grows(t, "namespaces", many, namespaceMemory, func() { g.grow(t, many, few+many, true) })
	grows(t, "pending writes, and what they leave", many, settledMemory, func() {
		grows(t, "pending writes", many, journal.EntryMemory, func() { g.grow(t, many, few, false) })
		g.settleAll(t)
	})
}

// settleAll settles all pending writes.
func (g *grown) settleAll(t *testing.T) {
	t.Helper()
	pending := g.PendingList("", g.entries)
	var next atomic.Int64
	together(256, func(int) {
		for i := int(next.Add(1)) - 1; i < len(pending); i = int(next.Add(1)) - 1 {
			w, ok, err := g.Newest(pending[i].ID)
			if err == nil && ok {
				err = g.Settle(w)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
}
