package journal_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

const dir = "data/journal"

func key(format string, args ...any) journal.ID {
	return journal.ID{Namespace: "ns", Key: fmt.Sprintf(format, args...)}
}

// reopen opens the journal of a file system without rebuilding the index. A disk failure fails the
// test.
func reopen(t testing.TB, fs vfs.FS, change ...func(*journal.Options)) *journal.Journal {
	t.Helper()
	opts := journal.Options{
		Dir: dir, FS: fs,
		Fatal: func(err error) { t.Errorf("Fatal was called: %v", err) },
	}
	for _, c := range change {
		c(&opts)
	}
	j, err := journal.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// open opens the journal of a file system and rebuilds the index.
func open(t testing.TB, fs vfs.FS, change ...func(*journal.Options)) *journal.Journal {
	t.Helper()
	j := reopen(t, fs, change...)
	if err := j.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return j
}

// allRows is more rows than a test's listing has.
const allRows = 1 << 40

// crash returns what a power cut leaves that loses all unsynced data.
func crash(fs *vfs.MemFS) *vfs.MemFS { return fs.CrashClone(vfs.CrashCloneCfg{}) }

func put(t testing.TB, j *journal.Journal, id journal.ID, value string) journal.Write {
	t.Helper()
	w, err := j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: value, ListBytes: len(value)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func remove(t testing.TB, j *journal.Journal, id journal.ID) journal.Write {
	t.Helper()
	w, err := j.Append(journal.NewWrite{ID: id, Op: journal.Delete})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func settle(t testing.TB, j *journal.Journal, id journal.ID) journal.Write {
	t.Helper()
	w, ok, err := j.Newest(id)
	if err != nil || !ok {
		t.Fatalf("Newest(%s) = %v, %v", id, ok, err)
	}
	if err := j.Settle(w); err != nil {
		t.Fatal(err)
	}
	return w
}

func lookup(t testing.TB, j *journal.Journal, id journal.ID) journal.State {
	t.Helper()
	state, err := j.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// expect fails the test unless the entry has this kind and value.
func expect(t testing.TB, j *journal.Journal, id journal.ID, kind journal.Kind, value string) journal.State {
	t.Helper()
	state := lookup(t, j, id)
	if state.Kind != kind || state.Value != value {
		t.Fatalf("%s is of kind %d with %q, want kind %d with %q", id, state.Kind, state.Value, kind, value)
	}
	return state
}

// wantNoValue fails the test if the entry has a value, or a pending delete.
func wantNoValue(t testing.TB, j *journal.Journal, id journal.ID) {
	t.Helper()
	if state := lookup(t, j, id); state.Kind != journal.Unknown && state.Kind != journal.Absent {
		t.Fatalf("%s is of kind %d with %q", id, state.Kind, state.Value)
	}
}

func check(t testing.TB, j *journal.Journal) {
	t.Helper()
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
}

// overlayOf returns the pending writes of a namespace.
func overlayOf(j *journal.Journal, namespace string) (pending []journal.Pending, err error) {
	err = j.VisitPending(namespace, func(p journal.Pending) { pending = append(pending, p) })
	return pending, err
}

func always() bool { return true }

func no(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sent records that a write was sent.
func sent(t testing.TB, j *journal.Journal, w journal.Write) journal.Write {
	t.Helper()
	_, err := j.MarkSent(w)
	no(t, err)
	return w
}

// leftOf returns what requests may have left of an entry, besides its pending write.
func leftOf(t testing.TB, j *journal.Journal, id journal.ID) []journal.Content {
	t.Helper()
	left, _, err := j.Left(journal.Write{ID: id})
	no(t, err)
	return left
}
