//go:build sweep

package journal_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// listedSpace is the namespace with a settled listing.
const listedSpace = "listedSpace"

// voyage is one run of the scenario that the sweeps repeat. It makes every call of a journal, over
// several lives, while logs and tables come and go.
type voyage struct {
	*ledger
	fs      vfs.FS
	j       *journal.Journal
	stop    error    // the failed start or end that stopped the scenario early
	leave   func()   // called before the process ends by itself; may be nil
	restart func()   // called after one process has ended well, before the next starts; may be nil
	sent    sync.Map // by entry: what its pending write leaves, if that may have been sent
}

// sail runs the scenario. It ends its goroutine early if the daemon would end.
func (v *voyage) sail() {
	a, b, c, d := key("a"), key("b"), key("c"), key("d")
	v.start()
	v.run()
	v.put(a, "a1")
	v.burst("first", 48<<10)
	v.put(b, "b1")
	v.put(a, "a2")
	v.remove(b)
	v.send(a)
	v.settle(a)
	v.put(a, "a3")
	v.send(a)
	v.put(a, "a4")
	v.buryAndRetry(c)
	v.buryAndDiscard(d)
	v.fill(key("e"), &journal.Observation{Value: "e1", ListBytes: 2, CreatedAt: 1, UpdatedAt: 2})
	v.fill(a, nil)
	v.list([]journal.Row{{Key: "x", ListBytes: 1}, {Key: "y", ListBytes: 2}, {Key: "z", ListBytes: 3}})
	v.put(row("x"), "x1")
	v.settle(row("x"))
	v.fill(row("y"), &journal.Observation{Value: "y1", ListBytes: 2, CreatedAt: 1, UpdatedAt: 2})
	v.remove(row("z"))
	v.settle(row("z"))
	v.burySent(row("x"))
	v.lose(row("y"))
	v.keepOverwritten(row("z"))
	v.list([]journal.Row{{Key: "x", ListBytes: 7}})
	v.put(key("huge"), strings.Repeat("h", 600<<10))
	v.flushTables()
	v.burst("second", 48<<10)
	v.close()

	v.start()
	v.run()
	v.put(a, "a4")
	v.settle(key("burst1"))
	v.remove(key("burst2"))
	v.settle(key("huge"))
	v.settle(b)
	v.flushTables()
	v.burst("third", 80<<10)
	v.forgetVersions()
	v.compactTables()
	v.put(c, "c3")
	v.close()

	v.start()
	v.put(a, "a5") // before the index is rebuilt
	v.settle(key("burst3"))
	v.forgetVersions()
	v.run()
	v.settle(a)
	v.forgetVersions()
	v.put(key("late"), "1")
	v.close()
}

func row(k string) journal.ID { return journal.ID{Namespace: listedSpace, Key: k} }

// end ends the scenario, where the daemon would exit.
func (v *voyage) end(err error) {
	v.stop = err
	runtime.Goexit()
}

func (v *voyage) start() {
	j, err := journal.Open(journal.WithoutPause(journal.Options{Dir: dir, FS: v.fs, Fatal: v.ended}))
	if err != nil {
		v.end(fmt.Errorf("start: %w", err))
	}
	v.j = j
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, a := range v.acked {
		if a.op != 0 { // the process before may have sent it
			v.sent.Store(id, leaving(a.op, a.value))
		}
	}
}

// leaving returns what a write leaves, as accounts say it.
func leaving(op journal.Op, value string) string {
	return fmt.Sprintf("%x", journal.ContentOf(op, value))
}

// withLeft adds what a write leaves to what is left, as the last of it.
func withLeft(left, last string) string {
	all := slices.DeleteFunc(strings.Split(left, "|"), func(other string) bool { return other == "" || other == last })
	return strings.Join(append(all, last), "|")
}

func (v *voyage) run() {
	if err := v.j.Run(context.Background()); err != nil {
		_ = v.j.Close()
		v.end(fmt.Errorf("rebuild: %w", err))
	}
}

func (v *voyage) close() {
	if v.hasEnded() {
		runtime.Goexit()
	}
	if v.leave != nil {
		v.leave()
	}
	if err := v.j.Close(); err != nil {
		v.end(fmt.Errorf("close: %w", err))
	}
	if v.restart != nil {
		v.restart()
	}
}

// Callers do not learn about errors when Pebble writes and merges its tables.
func (v *voyage) flushTables()   { _ = v.j.RotateLog() }
func (v *voyage) compactTables() { _ = v.j.CompactTables(context.Background()) }

// Callers do not learn about errors when old versions are removed.
func (v *voyage) forgetVersions() {
	shown, err := v.j.Shown()
	if err == nil {
		v.mu.Lock()
		v.shown = append(v.shown, shown...)
		v.mu.Unlock()
		_ = v.j.BoundHistory(1)
	}
}

func (v *voyage) append(w journal.NewWrite) {
	was := v.of(w.ID)
	was.op, was.value = w.Op, w.Value
	if left, ok := v.sent.LoadAndDelete(w.ID); ok {
		was.left = withLeft(was.left, left.(string))
	}
	_ = v.do(accounts{w.ID: was}, func() error {
		got, err := v.j.Append(w)
		v.gave(got.Seq)
		return err
	})
}

// gave records an acknowledged sequence number.
func (v *voyage) gave(seq uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = max(v.last, seq)
}

func (v *voyage) put(id journal.ID, value string) {
	v.append(journal.NewWrite{ID: id, Op: journal.Put, Value: value, ListBytes: len(value)})
}

func (v *voyage) remove(id journal.ID) { v.append(journal.NewWrite{ID: id, Op: journal.Delete}) }

// burst runs several writers at once, whose writes share a sync.
func (v *voyage) burst(name string, size int) {
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { v.put(key("burst%d", i), fmt.Sprint(name, i)+strings.Repeat("x", size)) })
	}
	wg.Wait()
}

// settle settles the entry's pending write, if it has one.
func (v *voyage) settle(id journal.ID) {
	w, ok, err := v.j.Newest(id)
	if err != nil || !ok {
		return
	}
	now := v.of(id)
	now.op, now.value, now.left = 0, "", ""
	v.sent.Delete(id)
	now.copied, now.copy = w.Op == journal.Put, w.Value
	if v.of(journal.ID{Namespace: id.Namespace}).row != "" {
		now.row = ""
		if w.Op == journal.Put {
			now.row = fmt.Sprint(w.ListBytes)
		}
	}
	_ = v.do(accounts{id: now}, func() error { return v.j.Settle(w) })
}

// send sends the entry's pending write.
func (v *voyage) send(id journal.ID) {
	w, ok, err := v.j.Newest(id)
	if err != nil || !ok {
		return
	}
	_ = v.do(accounts{}, func() error {
		v.sent.Store(id, leaving(w.Op, w.Value))
		return errors.Join(v.j.BeginSending(), second(v.j.MarkSent(w)))
	})
}

// bury dead-letters a write to the entry and returns its number; 0 if it is not dead.
func (v *voyage) bury(id journal.ID) uint64 {
	v.put(id, "refused")
	w, ok, err := v.j.Newest(id)
	if err != nil || !ok {
		return 0
	}
	now := v.of(id)
	now.op, now.value, now.left, now.dead = 0, "", "", w.Seq
	v.sent.Delete(id)
	if err := v.do(accounts{id: now}, func() error { return v.j.DeadLetter(w, journal.Failure{Status: 422, Reason: "no"}) }); err != nil {
		return 0
	}
	return w.Seq
}

// burySent does the same with a write that was sent, to an entry with a copy and a row, which are removed.
func (v *voyage) burySent(id journal.ID) {
	v.put(id, "refused")
	v.send(id)
	w, ok, err := v.j.Newest(id)
	if err != nil || !ok {
		return
	}
	now, listing := v.of(id), v.of(journal.ID{Namespace: id.Namespace})
	now.op, now.value, now.left, now.dead = 0, "", withLeft(now.left, leaving(w.Op, w.Value)), w.Seq
	v.sent.Delete(id)
	now.copied, now.copy, now.row = false, "", ""
	if listing.row != "" {
		listing.row = fmt.Sprint(false)
	}
	after := accounts{id: now, {Namespace: id.Namespace}: listing}
	_ = v.do(after, func() error { return v.j.DeadLetter(w, journal.Failure{Status: 422, Reason: "no"}) })
}

// lose has another host's state beat a write to an entry with a row.
func (v *voyage) lose(id journal.ID) {
	v.put(id, "loses")
	w, ok, err := v.j.Newest(id)
	if err != nil || !ok {
		return
	}
	now := v.of(id)
	now.op, now.value, now.left, now.lost = 0, "", "", w.Seq
	v.sent.Delete(id)
	now.copied, now.copy = true, "theirs"
	if v.of(journal.ID{Namespace: id.Namespace}).row != "" {
		now.row = fmt.Sprint(len("theirs"))
	}
	_ = v.do(accounts{id: now}, func() error { return v.j.Fence.Lose(w, foreign("theirs", 20), "later") })
}

// keepOverwritten keeps another host's state that a write is about to overwrite.
func (v *voyage) keepOverwritten(id journal.ID) {
	v.put(id, "wins")
	w, ok, err := v.j.Newest(id)
	if err != nil || !ok {
		return
	}
	now := v.of(id)
	now.theirs = "earlier"
	_ = v.do(accounts{id: now}, func() error { return v.j.Fence.KeepOverwritten(w.ID, foreign("theirs", 20)) })
}

func (v *voyage) buryAndRetry(id journal.ID) {
	seq := v.bury(id)
	if seq == 0 {
		return
	}
	now := v.of(id)
	now.op, now.value, now.dead = journal.Put, "refused", 0
	_ = v.do(accounts{id: now}, func() error {
		got, err := v.j.Retry(seq, journal.AnyWrite)
		v.gave(got.Seq)
		return err
	})
}

func (v *voyage) buryAndDiscard(id journal.ID) {
	seq := v.bury(id)
	if seq == 0 {
		return
	}
	now := v.of(id)
	now.dead = 0
	_ = v.do(accounts{id: now}, func() error { return v.j.Discard(seq) })
}

func (v *voyage) fill(id journal.ID, o *journal.Observation) {
	now := v.of(id)
	now.copied, now.copy = o != nil, ""
	if o != nil {
		now.copy = o.Value
	}
	if v.of(journal.ID{Namespace: id.Namespace}).row != "" {
		now.row = ""
		if o != nil {
			now.row = fmt.Sprint(o.ListBytes)
		}
	}
	_ = v.do(accounts{id: now}, func() error { return second(v.j.Fill(id, o, always)) })
}

// list takes a complete listing, which drops the copies that it does not show.
func (v *voyage) list(rows []journal.Row) {
	after := accounts{journal.ID{Namespace: listedSpace}: {row: fmt.Sprint(true)}}
	v.mu.Lock()
	for id, a := range v.acked {
		if id.Namespace == listedSpace && id.Key != "" {
			a.row, a.copied, a.copy = "", false, ""
			after[id] = a
		}
	}
	for _, r := range rows {
		a := v.acked[row(r.Key)]
		a.row = fmt.Sprint(r.ListBytes)
		after[row(r.Key)] = a
	}
	v.mu.Unlock()
	_ = v.do(after, func() error { return v.j.BeginListing(listedSpace).Commit(rows, true) })
}
