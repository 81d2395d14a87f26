package journal_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/botwired/botwired/journal"
)

// What a journal takes in memory grows by the pending write and by the namespace, each by so many
// bytes at most, and by nothing else: what is settled is on the disk.
const (
	settledMemory   = 64  // bytes for a settled entry: a trace of what is collected later
	namespaceMemory = 512 // bytes for a namespace of settled entries: its size, in a map that may just have grown
)

// grown is a journal on the real disk, which takes ever more.
type grown struct {
	*journal.Journal
	entries int
}

func newGrown(t *testing.T) *grown {
	t.Helper()
	sizes := journal.NewSizes(journal.SizesOptions{
		Limit: func(string) int64 { return 0 }, Logger: slog.New(slog.DiscardHandler),
	})
	j, err := journal.Open(journal.Options{Dir: t.TempDir(), Sizes: sizes})
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

// grow writes entries, over so many namespaces, and settles them or not.
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

// memory is what the journal takes, in bytes, beside what Pebble keeps within bounds.
func (g *grown) memory(t *testing.T) int64 {
	t.Helper()
	no(t, g.FlushStore())
	runtime.GC()
	runtime.GC() // frees what the first one has found a finalizer of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) - storeInHeap*g.StoreMemory()
}

// grows fails the test if what is done takes more than so much for each of some elements.
func (g *grown) grows(t *testing.T, what string, elements, most int64, do func()) {
	t.Helper()
	before := g.memory(t)
	do()
	by := g.memory(t) - before
	t.Logf("%s: %d bytes each", what, by/elements)
	if by > elements*most {
		t.Errorf("%s: %d take %d bytes each, want %d at most", what, elements, by/elements, most)
	}
}

func TestMemoryGrowsByPendingWritesAndNamespacesAlone(t *testing.T) {
	const few, many = 1000, 20_000 / fewer
	g := newGrown(t)
	g.grow(t, few, few, true)
	g.grows(t, "settled entries", many, settledMemory, func() { g.grow(t, many, few, true) })
	g.grows(t, "namespaces", many, namespaceMemory, func() { g.grow(t, many, few+many, true) })
	g.grows(t, "pending writes, and what they leave", many, settledMemory, func() {
		g.grows(t, "pending writes", many, journal.EntryMemory, func() { g.grow(t, many, few, false) })
		g.settleAll(t)
	})
}

// settleAll settles what is pending.
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
