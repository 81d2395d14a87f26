package journal

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// inLine has writes wait in line behind one that leads, and then lets that go: what it
// returns are their errors, in the order of the line.
func inLine(j *Journal, writes ...*appending) []error {
	first := &appending{}
	j.line.join(first)
	group := j.line.take()
	var all sync.WaitGroup
	for i, a := range writes {
		a.err = ErrFailed
		all.Go(func() {
			if j.line.join(a) {
				j.lead()
			}
		})
		for length := 0; length <= i; { // until it is in line
			j.line.mu.Lock()
			length = len(j.line.waiting)
			j.line.mu.Unlock()
		}
	}
	j.line.pass(group)
	all.Wait()
	var errs []error
	for _, a := range writes {
		errs = append(errs, a.err)
	}
	return errs
}

func putOf(key, value string) *appending {
	return &appending{NewWrite: NewWrite{ID: ID{"ns", key}, Op: Put, Value: value}}
}

func batches(j *Journal) uint64 {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	return j.totals.batches
}

// Those who wait together are journaled in one batch, in the order of the line, and each
// gets its own answer.
func TestGroup(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	j.opts.MaxBytes = 5000
	before := batches(j)
	late := putOf("a", "late")
	late.If = func(newest uint64) bool { return newest == 0 }
	errs := inLine(j, putOf("a", "1"), putOf("b", "1"), late, putOf("c", strings.Repeat("x", 5000)), putOf("a", "2"))
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

// A group is as large as its batch may be, and what follows is the next one's.
func TestGroupsAreBounded(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	before := batches(j)
	large := strings.Repeat("x", groupBytes/3)
	inLine(j, putOf("1", large), putOf("2", large), putOf("3", large), putOf("4", large), putOf("5", large))
	if got := batches(j) - before; got != 2 {
		t.Errorf("%d batches were made of 5 large writes", got)
	}
	before = batches(j)
	var many []*appending
	for i := range groupWrites + 1 {
		many = append(many, putOf(fmt.Sprint("k", i), "v"))
	}
	inLine(j, many...)
	if got := batches(j) - before; got != 2 {
		t.Errorf("%d batches were made of %d writes", got, len(many))
	}
	mustCheck(t, j)
}

// A write whose addition fails leaves nothing, and takes nobody with it.
func TestAdditionFails(t *testing.T) {
	j := openOn(t, vfs.NewMem())
	before := batches(j)
	broken := errors.New("broken")
	failing := putOf("b", "1")
	failing.also.to = func(batch *pebble.Batch) error {
		return errors.Join(batch.Set([]byte("left behind"), nil, nil), broken)
	}
	errs := inLine(j, putOf("a", "1"), failing, putOf("c", "1"))
	if errs[0] != nil || !errors.Is(errs[1], broken) || errs[2] != nil {
		t.Errorf("the errors are %v", errs)
	}
	if got := batches(j) - before; got != 2 {
		t.Errorf("%d batches were made", got)
	}
	if _, _, err := j.db.Get([]byte("left behind")); !errors.Is(err, pebble.ErrNotFound) {
		t.Errorf("what the addition left: %v", err)
	}
	mustCheck(t, j)
}

// Whoever waits in line is let go when making the batch panics, and nobody is told that
// anything is durable.
func TestPanicInAGroup(t *testing.T) {
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
	mad := putOf("b", "1")
	mad.If = func(uint64) bool { panic("mad") }
	for i, err := range inLine(j, putOf("a", "1"), mad, putOf("c", "1")) {
		if !errors.Is(err, ErrFailed) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if _, err := j.Append(NewWrite{ID: ID{"ns", "d"}, Op: Put, Value: "1"}); !errors.Is(err, ErrFailed) || fatal.Load() != 1 {
		t.Errorf("afterwards a write gets %v, and Fatal was called %d times", err, fatal.Load())
	}
}
