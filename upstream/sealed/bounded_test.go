package sealed_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/sealed"
)

// follower is a view of nothing, whose changes the test tells.
type follower struct {
	upstream.View
	since   time.Time
	changed func(journal.ID, upstream.Version)
}

func (f *follower) CaughtUp() (asOf, since time.Time, ok bool) { return time.Now(), f.since, true }

func (f *follower) Entry(journal.ID) (row journal.Row, present, known bool) {
	return journal.Row{}, false, true
}

func (f *follower) Follow(changed func(journal.ID, upstream.Version)) { f.changed = changed }

func openAll(b upstream.Backend, k *seal.Keys) *sealed.Engine {
	return sealed.New(b, "host", sealed.Options{Keys: k, Sealed: func(string) bool { return true }, Logger: slog.New(slog.DiscardHandler)})
}

// However many sealed namespaces are asked for, the engine remembers a bounded number of them.
func TestNamespacesTakeBoundedMemory(t *testing.T) {
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, b := range map[string]upstream.Backend{"alone": {}, "with a view": {View: &follower{}}} {
		t.Run(name, func(t *testing.T) {
			e := openAll(b, keysOf(t, seal.Generate()))
			before := inUse()
			for i := range 20_000 {
				e.Use(fmt.Sprint("conversation-", i))
			}
			if took := inUse() - before; took > 10<<20 {
				t.Errorf("it took %d KiB", took>>10)
			}
			runtime.KeepAlive(e)
		})
	}
}

// A view tells of no change in a namespace that the engine has forgotten, so no answer from before still holds. The next
// use of the namespace follows it again.
func TestForgottenNamespaceIsComparedAgain(t *testing.T) {
	k, f := keysOf(t, seal.Generate()), &follower{since: time.Now()}
	view := openAll(upstream.Backend{Engine: newStore(true), View: f}, k).Backend().View
	var told []journal.ID
	view.Follow(func(id journal.ID, _ upstream.Version) { told = append(told, id) })
	hidden := func(namespace string) journal.ID {
		n := k.For(namespace)
		key, _ := n.Key("key")
		return journal.ID{Namespace: n.Name(), Key: key}
	}
	view.Entry(id)
	_, since, _ := view.CaughtUp()
	if !since.Equal(f.since) {
		t.Error("nothing was forgotten, and answers hold no more")
	}
	for i := range 20_000 {
		view.Entry(journal.ID{Namespace: fmt.Sprint(i), Key: "key"})
	}
	f.changed(hidden(id.Namespace), upstream.Version{})
	if _, now, _ := view.CaughtUp(); slices.Contains(told, id) || !now.After(since) {
		t.Errorf("answers of before still hold; told of %v", told)
	}
	view.Entry(id)
	f.changed(hidden(id.Namespace), upstream.Version{})
	if !slices.Contains(told, id) {
		t.Errorf("told of %v", told)
	}
}
