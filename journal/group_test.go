package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

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

func mustAppend(t *testing.T, j *Journal, id ID, value string) {
	t.Helper()
	if _, err := j.Append(NewWrite{ID: id, Op: Put, Value: value}); err != nil {
		t.Fatal(err)
	}
}

// mustAddUp compares what is in the store with its state record: a power cut may leave it
// as it is now.
func mustAddUp(t *testing.T, j *Journal) {
	t.Helper()
	snapshot := j.db.NewSnapshot()
	defer func() { _ = snapshot.Close() }()
	found, err := count(context.Background(), snapshot, func([]retired) {})
	if err == nil {
		err = verify(snapshot, found)
	}
	if err != nil {
		t.Error(err)
	}
}

// held is as if a sync were under way until the returned function is called: what joins
// meanwhile gathers.
func held(j *Journal) (end func()) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	j.syncing = &group{}
	return func() { j.lead(j.next()) }
}

// joined is how many wait for the group that gathers.
func joined(j *Journal) int {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	return j.gather().joined
}

// together has writes gather in one group, and returns their errors.
func together(j *Journal, writes ...NewWrite) []error {
	end := held(j)
	errs, tickets := make([]error, len(writes)), make([]ticket, len(writes))
	for i := range writes {
		_, tickets[i], errs[i] = j.enlist(&writes[i])
	}
	end()
	for i, t := range tickets {
		if err := j.await(t); err != nil {
			errs[i] = err
		}
	}
	return errs
}

func putOf(key, value string) NewWrite { return NewWrite{ID: ID{"ns", key}, Op: Put, Value: value} }

func batches(j *Journal) uint64 {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	return j.totals.batches
}

// Those who wait together are journaled in one batch, in their order, and each gets its
// own answer.
func TestGroup(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	j.opts.MaxBytes = 5000
	before := batches(j)
	late := putOf("a", "late")
	late.If = func(newest uint64) bool { return newest == 0 }
	errs := together(j, putOf("a", "1"), putOf("b", "1"), late, putOf("c", strings.Repeat("x", 5000)), putOf("a", "2"))
	for i, want := range []error{nil, nil, ErrChanged, ErrFull, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("write %d: %v, want %v", i, errs[i], want)
		}
	}
	if got := batches(j) - before; got != 1 {
		t.Errorf("%d batches were made", got)
	}
	for id, value := range map[ID]string{{"ns", "a"}: "2", {"ns", "b"}: "1"} {
		if w, ok, err := j.Newest(id); err != nil || !ok || w.Value != value {
			t.Errorf("%s is %+v, %t, %v", id, w, ok, err)
		}
	}
	mustCheck(t, j)
}

// What gathers is applied when it is as large as a batch may be.
func TestBatchesAreBounded(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	before := batches(j)
	large := strings.Repeat("x", groupBytes/3)
	for i, err := range together(j, putOf("1", large), putOf("2", large), putOf("3", large), putOf("4", large), putOf("5", large)) {
		if err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if got := batches(j) - before; got != 2 {
		t.Errorf("%d batches were made of 5 large writes", got)
	}
	mustCheck(t, j)
}

// Other changes than writes find in the store what gathered before them, and wait for the
// same sync.
func TestChangesBetweenWrites(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	mustAppend(t, j, ID{"ns", "settles"}, "1")
	w, _, err := j.Newest(ID{"ns", "settles"})
	if err != nil {
		t.Fatal(err)
	}
	end := held(j)
	first, second := putOf("a", "1"), putOf("a", "2")
	_, one, err := j.enlist(&first)
	if err != nil {
		t.Fatal(err)
	}
	settled := make(chan error, 1)
	go func() { settled <- j.Settle(w) }()
	for joined(j) < 2 {
		time.Sleep(time.Millisecond)
	}
	mustAddUp(t, j)
	_, two, err := j.enlist(&second)
	if err != nil {
		t.Fatal(err)
	}
	if one.group != two.group {
		t.Error("they do not wait for the same sync")
	}
	select {
	case <-settled:
		t.Error("settled before the sync")
	default:
	}
	end()
	if err := errors.Join(j.await(one), j.await(two), <-settled); err != nil {
		t.Fatal(err)
	}
	if w, ok, err := j.Newest(ID{"ns", "a"}); err != nil || !ok || w.Value != "2" {
		t.Errorf("a is %+v, %t, %v", w, ok, err)
	}
	mustAppend(t, j, ID{"ns", "b"}, "1") // takes the superseded record along
	mustCheck(t, j)
	if j.totals.pending != 2 || j.superseded != 0 {
		t.Errorf("totals are %+v, %d bytes superseded", j.totals, j.superseded)
	}
}

// A change that cannot be made leaves nothing, and takes nobody with it.
func TestChangeFails(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	broken := errors.New("broken")
	end := held(j)
	before, after := putOf("a", "1"), putOf("c", "1")
	_, one, _ := j.enlist(&before)
	failed, err := j.begin(func(batch *pebble.Batch) ([]arrival, error) {
		return nil, errors.Join(batch.Set([]byte("left behind"), nil, nil), broken)
	})
	_, two, _ := j.enlist(&after)
	end()
	if err := errors.Join(j.await(one), j.await(two)); err != nil {
		t.Errorf("the others got %v", err)
	}
	if err := j.outcome(failed, err); !errors.Is(err, broken) {
		t.Errorf("the change's error is %v", err)
	}
	if _, _, err := j.db.Get([]byte("left behind")); !errors.Is(err, pebble.ErrNotFound) {
		t.Errorf("what the change left: %v", err)
	}
	mustCheck(t, j)
}

// Nobody is told that anything is durable when making a batch panics, or what follows its
// sync, and nobody waits for ever.
func TestPanicInAGroup(t *testing.T) {
	for name, mad := range map[string]func(*Journal, *NewWrite){
		"placing": func(_ *Journal, w *NewWrite) { w.If = func(uint64) bool { panic("mad") } },
		"publishing": func(j *Journal, w *NewWrite) {
			j.Subscribe(func(c Change) {
				if c.ID == w.ID {
					panic("mad")
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var fatal atomic.Int32
			j, err := Open(Options{Dir: "j", FS: vfs.NewMem(), Fatal: func(error) { fatal.Add(1) }})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := j.Close(); err != nil && !errors.Is(err, ErrFailed) {
					t.Error(err)
				}
			}()
			second := putOf("b", "1")
			mad(j, &second)
			for i, err := range together(j, putOf("a", "1"), second, putOf("c", "1")) {
				if !errors.Is(err, ErrFailed) {
					t.Errorf("write %d: %v", i, err)
				}
			}
			if _, err := j.Append(putOf("d", "1")); !errors.Is(err, ErrFailed) || fatal.Load() != 1 {
				t.Errorf("afterwards a write gets %v, and Fatal was called %d times", err, fatal.Load())
			}
		})
	}
}

// A write that is refused leaves no group behind that somebody would wait for.
func TestRefusedAlone(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	never := putOf("a", "1")
	never.If = func(uint64) bool { return false }
	before := batches(j)
	for range 2 {
		if _, err := j.Append(never); !errors.Is(err, ErrChanged) {
			t.Errorf("error is %v", err)
		}
	}
	if err := j.MarkSent(Write{ID: ID{"ns", "b"}, Seq: 1}); err != nil {
		t.Error(err)
	}
	if got := batches(j) - before; got != 1 {
		t.Errorf("%d batches were made of one mark", got)
	}
	mustAppend(t, j, ID{"ns", "a"}, "1")
	mustCheck(t, j)
}

// Whoever leads waits for as many as it expects, or for as long as a sync took.
func TestMuster(t *testing.T) {
	const patience = time.Minute
	for _, come := range []int{0, 1, 3, 5} {
		t.Run(fmt.Sprint(come), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal(Options{})
				j.syncing = &group{}
				began := time.Now()
				for i := range come {
					time.AfterFunc(time.Duration(i+1)*time.Second, func() {
						j.commitMu.Lock()
						defer j.commitMu.Unlock()
						j.join(arrival{})
						j.join() // who has no write is not waited for
					})
				}
				j.muster(3, patience)
				want := patience
				if come >= 3 {
					want = 3 * time.Second
				}
				if waited := time.Since(began); waited != want {
					t.Errorf("it waited %v, and should have %v", waited, want)
				}
				time.Sleep(patience)
				if joined := joined(j); joined != 2*come {
					t.Errorf("%d joined", joined)
				}
				began = time.Now()
				j.muster(come, patience)
				if waited := time.Since(began); waited != 0 {
					t.Errorf("for those who were there it waited %v", waited)
				}
				if come == 0 && j.next() != nil {
					t.Error("nobody sets out")
				}
			})
		})
	}
}

// Nobody leads when nobody has come: who comes then leads itself.
func TestLeadEnds(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	for i, err := range together(j, putOf("a", "1"), putOf("b", "1"), putOf("c", "1")) {
		if err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
	for i := range 3 {
		mustAppend(t, j, ID{"ns", fmt.Sprint(i)}, "1")
	}
	j.commitMu.Lock()
	if j.syncing != nil {
		t.Error("somebody leads")
	}
	j.commitMu.Unlock()
	mustCheck(t, j)
}

// A write that waits for its fsync replaces another one: only the newest counts.
func TestBudgetCountsAnEntryOnce(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	j.opts.MaxBytes = 2 * (pendingOverhead + 5 + 10)
	id := ID{"ns", "key"}
	begin := held(j)
	for range 4 {
		put := putOf("key", "0123456789")
		if _, _, err := j.enlist(&put); err != nil {
			t.Fatal(err)
		}
	}
	other := putOf("two", "0123456789")
	_, waiting, err := j.enlist(&other)
	if err != nil {
		t.Error(err)
	}
	begin()
	if err := j.await(waiting); err != nil {
		t.Error(err)
	}
	if _, err := j.Append(NewWrite{ID: id, Op: Put, Value: "9876543210"}); err != nil {
		t.Error(err)
	}
}
