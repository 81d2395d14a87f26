package journal_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// contract 18: while a namespace is full upstream, its pending writes take at most an eighth of the budget. Deletes, and
// puts that take no more, are always taken, and other namespaces go on.
func TestPendingWritesOfAFullNamespaceHaveAShare(t *testing.T) {
	const budget = 1 << 20
	var full atomic.Bool
	with := func(o *journal.Options) {
		o.MaxBytes, o.Full = budget, func(namespace string) bool { return full.Load() && namespace == "ns" }
	}
	fs := vfs.NewCrashableMem()
	j := open(t, fs, with)
	try := func(namespace, key string, bytes int) error {
		_, err := j.Append(journal.NewWrite{
			ID: journal.ID{Namespace: namespace, Key: key}, Op: journal.Put, Value: strings.Repeat("v", bytes), ListBytes: bytes,
		})
		return err
	}
	refused := func(err error) {
		t.Helper()
		f, ok := errors.AsType[*journal.NamespaceFullError](err)
		if !ok || f.Namespace != "ns" || f.Most != budget/8 || !strings.Contains(err.Error(), "of the 131072 bytes that they may take") {
			t.Errorf("got %v, want a refusal for want of room", err)
		}
	}
	no(t, try("ns", "first", 10_000))
	full.Store(true)
	for i := range 11 {
		no(t, try("ns", fmt.Sprint(i), 10_000))
	}
	refused(try("ns", "more", 10_000))
	no(t, try("ns", "first", 10_000))
	no(t, try("ns", "first", 9_000))
	no(t, try("other", "k", 10_000))
	for i := range 100 {
		no(t, second(j.Append(journal.NewWrite{ID: key("old%d", i), Op: journal.Delete})))
	}
	refused(try("ns", "small", 1000))
	j = open(t, crash(fs), with)
	refused(try("ns", "more", 10_000))
	if st := j.Stats().Namespaces["ns"]; st.Pending != 112 {
		t.Errorf("%d writes are pending", st.Pending)
	}
	full.Store(false)
	no(t, try("ns", "more", 10_000))
}

// contract 18: also of puts that come at once, no more are taken than have room.
func TestPutsOfAFullNamespaceShareItsRoom(t *testing.T) {
	const budget, each, callers = 8 << 20, 10_000, 300
	j := open(t, vfs.NewMem(), func(o *journal.Options) {
		o.MaxBytes, o.Full = budget, func(string) bool { return true }
	})
	var taken atomic.Int64
	together(callers, func(i int) {
		_, err := j.Append(journal.NewWrite{ID: key("%d", i), Op: journal.Put, Value: strings.Repeat("v", each), ListBytes: each})
		if err == nil {
			taken.Add(1)
		} else if _, ok := errors.AsType[*journal.NamespaceFullError](err); !ok {
			t.Error(err)
		}
	})
	if st := j.Stats().Namespaces["ns"]; st.PendingBytes > budget/8 || int64(st.Pending) != taken.Load() || taken.Load() < budget/8/(each+1000) {
		t.Errorf("%d writes with %d bytes are pending", st.Pending, st.PendingBytes)
	}
}

// contract 18: what upstream's last list of a namespace adds up to outlives the process, and lasts until the next list.
func TestWhatAListAddsUpTo(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	wants := func(want int64) {
		t.Helper()
		all := make(map[string]int64)
		j.Listings.Bytes(func(namespace string, bytes int64) { all[namespace] = bytes })
		if all["ns"] != want || j.Listings.BytesOf("ns") != want || j.Listings.BytesOf("other") != 0 {
			t.Errorf("the list adds up to %d, %d, want %d", all["ns"], j.Listings.BytesOf("ns"), want)
		}
	}
	wants(0)
	row := func(key string, bytes int) journal.Row { return journal.Row{Key: key, ListBytes: bytes, UpdatedAt: 5} }
	list(t, j, true, row("a", 10), row("b", 200))
	wants(210)
	put(t, j, key("c"), "value") // botwired counts no writes
	settle(t, j, key("c"))
	wants(210)
	j = open(t, crash(fs))
	no(t, j.Run(t.Context()))
	wants(215)
	list(t, j, true, row("b", 200))
	wants(200)
	list(t, j, true, row("b", 200)) // nothing changes
	wants(200)
	list(t, j, true)
	wants(0)
}
