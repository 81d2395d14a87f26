package memory

import (
	"errors"
	"testing"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// contract 5: a write that comes between the look at an entry and the import's own write stays. Here it comes
// right after the import has looked.
func TestImportDecidesAnew(t *testing.T) {
	r := newRig(t)
	run := &importing{Importer: NewImporter(r.Memory)}
	k := id("n", "k")
	entry := &ImportedEntry{k, "file", 1}
	lease := r.cache.Lease(entryKey(k))
	defer lease.Release()
	before, err := r.lookInJournal(k, AnyAge)
	noError(t, err)
	r.upstream.set(k, "agent")
	r.put(k, "agent")
	r.settle(k)
	if err := run.writeOver(t.Context(), entry, &before.state, lease); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("it is written over: %v", err)
	}
	if err := run.importOne(t.Context(), askedEntry{entry, &cache.Item{}}); err != nil || run.done.Older != 1 {
		t.Errorf("%+v, %v", run.done, err)
	}
	r.wantValue(k, "agent")
}
