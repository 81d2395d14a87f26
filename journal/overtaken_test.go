package journal

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// begun begins a write that is durable and not yet published, as when its goroutine
// is slow to be woken after the fsync.
func begun(t *testing.T, j *Journal, id ID, value string) (publish func()) {
	t.Helper()
	group := []*appending{{NewWrite: NewWrite{ID: id, Op: Put, Value: value}}}
	batch, err := j.begin(group)
	if err != nil || group[0].err != nil {
		t.Fatal(err, group[0].err)
	}
	if err := j.wait(batch); err != nil {
		t.Fatal(err)
	}
	return func() { j.publish(group) }
}

func openOn(t *testing.T, fs vfs.FS) *Journal {
	t.Helper()
	j, err := Open(Options{Dir: "j", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if err := j.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return j
}

func mustCheck(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
}

// A write that a newer one overtook on its way to being published is not brought back
// by a crash after the newer one has left the pending set (contracts 5 and 7).
func TestOvertakenWriteIsNotRevived(t *testing.T) {
	id := ID{"ns", "key"}
	for name, end := range map[string]func(*Journal, Write) error{
		"settled": (*Journal).Settle,
		"buried":  func(j *Journal, w Write) error { return j.Bury(w, 400, "bad") },
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := openOn(t, fs)
			begun(t, j, id, "1")()
			publish2 := begun(t, j, id, "2")
			begun(t, j, id, "3")()
			w, ok, err := j.Newest(id)
			if err != nil || !ok || w.Value != "3" {
				t.Fatalf("Newest = %+v, %v, %v", w, ok, err)
			}
			if err := end(j, w); err != nil {
				t.Fatal(err)
			}
			mustCheck(t, j)
			after := openOn(t, fs.CrashClone(vfs.CrashCloneCfg{}))
			if w, ok, _ := after.Newest(id); ok {
				t.Errorf("pending after the crash: %q", w.Value)
			}
			publish2()
			if w, ok, _ := j.Newest(id); ok {
				t.Errorf("pending: %q", w.Value)
			}
			begun(t, j, id, "4")()
			mustCheck(t, j)
			if st := j.Stats(); st.Pending != 1 {
				t.Errorf("stats are %+v", st)
			}
		})
	}
}

// Publishing in any order leaves the newest visible, and nothing else in the store.
func TestPublishInAnyOrder(t *testing.T) {
	id := ID{"ns", "key"}
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		j := openOn(t, vfs.NewMem())
		var publish [3]func()
		for i, value := range []string{"a", "bb", "ccc"} {
			publish[i] = begun(t, j, id, value)
		}
		newest := -1
		for _, i := range order {
			publish[i]()
			newest = max(newest, i)
			if w, ok, err := j.Newest(id); !ok || err != nil || len(w.Value) != newest+1 {
				t.Errorf("order %v: Newest = %+v, %v, %v", order, w, ok, err)
			}
		}
		begun(t, j, ID{"ns", "other"}, "x")()
		mustCheck(t, j)
		if j.totals.pending != 2 || j.superseded != 0 {
			t.Errorf("order %v: totals are %+v, %d superseded", order, j.totals, j.superseded)
		}
	}
}

// A write that waits for its fsync replaces another one: only the newest counts.
func TestBudgetCountsAnEntryOnce(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	j.opts.MaxBytes = 2 * (pendingOverhead + 5 + 10)
	id := ID{"ns", "key"}
	for range 4 {
		defer begun(t, j, id, "0123456789")()
	}
	if _, err := j.Append(NewWrite{ID: ID{"ns", "two"}, Op: Put, Value: "0123456789"}); err != nil {
		t.Error(err)
	}
	if _, err := j.Append(NewWrite{ID: id, Op: Put, Value: "9876543210"}); err != nil {
		t.Error(err)
	}
}

// Readers of an entry whose write was buried wait until that is durable (contract 7).
func TestReadersWaitForTheBurial(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	id := ID{"ns", "key"}
	begun(t, j, id, "1")()
	w, _, _ := j.Newest(id)
	batch, reveal, err := j.retire(w, true, func(*pebble.Batch, *version) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan State)
	go func() {
		state, _ := j.Lookup(id)
		_, _, _ = j.Listing("ns")
		read <- state
	}()
	select {
	case <-read:
		t.Fatal("the reader did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	if err := j.wait(batch); err != nil {
		t.Fatal(err)
	}
	reveal()
	if state := <-read; state.Kind != Unknown {
		t.Errorf("state is %+v", state)
	}
	if len(j.filling) != 0 {
		t.Error("readers go on waiting")
	}
}
