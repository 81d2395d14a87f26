package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal/internal/record"
)

// Gathered changes are applied when they reach the size limit of a batch.
func TestBatchesAreBounded(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	before := s.Totals().Batches
	large := strings.Repeat("x", groupBytes/3)
	end := held(s)
	tickets, errs := enqueued(s, put("1", large), put("2", large), put("3", large), put("4", large), put("5", large))
	end()
	for i, ticket := range tickets {
		if err := errors.Join(errs[i], s.await(ticket)); err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if got := s.Totals().Batches - before; got != 2 {
		t.Errorf("%d batches were made of 5 large writes", got)
	}
	addsUp(t, s)
}

// early is a change that is applied at once.
type early struct {
	ChangeFunc
	applied func()
}

func (e early) Applied() { e.applied() }

// An early change finds the earlier gathered changes in the store, and waits for the same sync.
func TestEarlyChangeBetweenOthers(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	end := held(s)
	before, errs := enqueued(s, put("a", "1"))
	no(t, errs[0])
	seen, applied := false, false
	key := record.EntryKey(record.LeftPrefix, record.ID{Namespace: "ns", Key: "a"})
	change := early{
		ChangeFunc: func(tx *Tx) error {
			seen = holds(t, s, record.AppendPendingKey(nil, record.ID{Namespace: "ns", Key: "a"}, 1))
			tx.Set(key, record.EncodeLeft(key, nil))
			return nil
		},
		applied: func() { applied = holds(t, s, key) },
	}
	waiting, err := s.enqueue(change)
	no(t, err)
	if !seen || !applied {
		t.Errorf("it saw what was before it: %v; it is in the store when it is shown: %v", seen, applied)
	}
	addsUp(t, s)
	after, errs := enqueued(s, put("a", "2"))
	no(t, errs[0])
	if before[0].group != waiting.group || waiting.group != after[0].group {
		t.Error("they do not wait for the same sync")
	}
	end()
	no(t, errors.Join(s.await(before[0]), s.await(waiting), s.await(after[0])))
	addsUp(t, s)
}

// An early change is applied and shown under one hold of the readers' lock: a reader never sees one
// without the other.
func TestEarlyChangeIsAppliedUnderTheReadersLock(t *testing.T) {
	readers, armed := new(sync.Mutex), false
	locked := func() bool {
		if readers.TryLock() {
			readers.Unlock()
			return false
		}
		return true
	}
	batches := 0
	s := openStore(t, vfs.NewMem(), func(o *Options) {
		o.Readers = readers
	})
	applied := s.applied
	s.applied = func() {
		applied()
		if armed {
			batches++
			if !locked() {
				t.Error("a batch is applied without the lock")
			}
		}
	}
	armed = true
	no(t, s.Update(early{ChangeFunc: put("a", "1"), applied: func() {
		if !locked() {
			t.Error("it is shown without the lock")
		}
	}}))
	armed = false
	if batches != 1 {
		t.Errorf("%d batches were applied", batches)
	}
}

// A refused change leaves nothing in the store and does not affect other changes. Its caller gets the
// answer when everything that may have caused the refusal is durable.
func TestRefusedChange(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	broken := errors.New("broken")
	end := held(s)
	tickets, errs := enqueued(s,
		put("a", "1"), ChangeFunc(func(*Tx) error { return broken }), put("c", "1"))
	if tickets[1].group != tickets[0].group {
		t.Error("the refusal does not wait for what was before it")
	}
	end()
	for i, want := range []error{nil, broken, nil} {
		if err := s.await(tickets[i]); err != nil || !errors.Is(errs[i], want) {
			t.Errorf("change %d: %v, and after the sync %v", i, errs[i], err)
		}
	}
	if got := s.Totals(); got.Pending != 2 || got.Seq != 2 {
		t.Errorf("totals are %+v", got)
	}
	addsUp(t, s)
}

// A refused change leaves no group that somebody would wait for. A change without records makes no
// batch.
func TestNothingToSync(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	before := s.Totals().Batches
	for range 2 {
		if err := s.Update(ChangeFunc(func(*Tx) error { return ErrClosed })); !errors.Is(err, ErrClosed) {
			t.Errorf("error is %v", err)
		}
		no(t, s.Update(ChangeFunc(func(*Tx) error { return nil })))
	}
	if got := s.Totals().Batches - before; got != 0 {
		t.Errorf("%d batches were made of nothing", got)
	}
	no(t, s.Update(put("a", "1")))
	addsUp(t, s)
}

// panicking is a change that panics when it becomes visible.
type panicking struct{ ChangeFunc }

func (panicking) Durable() { panic("no") }

// If filling a batch or making it visible panics, no caller gets a success, and none waits forever
// (contract 2).
func TestPanicInAGroup(t *testing.T) {
	for name, mad := range map[string]Change{
		"filling":    ChangeFunc(func(tx *Tx) error { _ = put("b", "1")(tx); panic("no") }),
		"publishing": panicking{put("b", "1")},
		"showing":    early{put("b", "1"), func() { panic("no") }},
	} {
		t.Run(name, func(t *testing.T) {
			var fatal atomic.Int32
			s := openStore(t, vfs.NewMem(), func(o *Options) { o.Fatal = func(error) { fatal.Add(1) } })
			end := held(s)
			tickets, errs := enqueued(s, put("a", "1"), mad, put("c", "1"))
			end()
			for i := range tickets {
				err := errs[i]
				if err == nil {
					err = s.await(tickets[i])
				}
				if !errors.Is(err, ErrFailed) {
					t.Errorf("change %d: %v", i, err)
				}
			}
			if err := s.Update(put("d", "1")); !errors.Is(err, ErrFailed) || fatal.Load() != 1 {
				t.Errorf("afterwards a write gets %v, and Fatal was called %d times", err, fatal.Load())
			}
			if err := s.Close(); !errors.Is(err, ErrFailed) && err != nil {
				t.Error(err)
			}
		})
	}
}

// A leader waits until the expected number of writes has joined, or as long as a sync took.
func TestCommitDelay(t *testing.T) {
	const atMost = time.Minute
	for _, come := range []int{0, 1, 3, 5} {
		t.Run(fmt.Sprint(come), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &pipeline{syncing: &group{}}
				began := time.Now()
				for i := range come {
					time.AfterFunc(time.Duration(i+1)*time.Second, func() {
						s.order.Lock()
						defer s.order.Unlock()
						s.gather().writes++
						s.join(ChangeFunc(nil))
						s.join(ChangeFunc(nil)) // changes that journal no write do not end the delay
					})
				}
				s.delayCommit(3, atMost)
				want := atMost
				if come >= 3 {
					want = 3 * time.Second
				}
				if waited := time.Since(began); waited != want {
					t.Errorf("it waited %v, and should have %v", waited, want)
				}
				time.Sleep(atMost)
				s.order.Lock()
				joined := len(s.gather().changes)
				s.order.Unlock()
				if joined != 2*come {
					t.Errorf("%d joined", joined)
				}
				began = time.Now()
				s.delayCommit(come, atMost)
				if waited := time.Since(began); waited != 0 {
					t.Errorf("for writes that were there it waited %v", waited)
				}
				if come == 0 && s.next() != nil {
					t.Error("an empty group starts a sync")
				}
			})
		})
	}
}

// If no caller has joined, no goroutine leads: the next caller leads itself.
func TestLeadEnds(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	end := held(s)
	tickets, errs := enqueued(s, put("a", "1"), put("b", "1"), put("c", "1"))
	end()
	for i, ticket := range tickets {
		no(t, errors.Join(errs[i], s.await(ticket)))
	}
	for i := range 3 {
		no(t, s.Update(put(fmt.Sprint(i), "1")))
	}
	s.order.Lock()
	defer s.order.Unlock()
	if s.syncing != nil {
		t.Error("somebody leads")
	}
}

// A write whose own sync succeeds is not acknowledged after another sync has failed, because the disk
// is no longer trusted (contract 2).
func TestNothingIsAcknowledgedBesideAFailure(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	end := held(s)
	tickets, errs := enqueued(s, put("a", "1"))
	no(t, errs[0])
	g := s.next() // it is applied
	s.fail(errors.New("elsewhere"))
	s.finish(g)
	if err := s.await(tickets[0]); !errors.Is(err, ErrFailed) {
		t.Errorf("error is %v", err)
	}
	end()
}

// After the disk has failed, gathered changes are not passed to Pebble, which may be about to panic
// (contract 2).
func TestNothingIsHandedOnAfterAFailure(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	end := held(s)
	tickets, errs := enqueued(s, put("a", "1"))
	no(t, errs[0])
	s.fail(errors.New("elsewhere"))
	end()
	if err := s.await(tickets[0]); !errors.Is(err, ErrFailed) {
		t.Errorf("error is %v", err)
	}
	if holds(t, s, record.AppendPendingKey(nil, record.ID{Namespace: "ns", Key: "a"}, 1)) {
		t.Error("the record is in the store")
	}
}

// contract 2: a table that cannot be written during Close loses nothing, but Close must return the
// failure.
func TestTableThatFailsWhileClosing(t *testing.T) {
	begun, fail := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var armed atomic.Bool
	fs := errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !armed.Load() || op.Kind != errorfs.OpCreate || !strings.HasSuffix(op.Path, ".sst") {
			return nil
		}
		once.Do(func() { close(begun) })
		<-fail
		return syscall.EIO
	}))
	s := openStore(t, fs)
	no(t, s.Update(put("a", "1")))
	armed.Store(true)
	no(t, s.failOnPanic(func() error { _, err := s.db.AsyncFlush(); return err }))
	<-begun
	s.closing.Store(true) // as Close does, before it waits for the table
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	close(fail)
	if err := <-closed; !errors.Is(err, syscall.EIO) {
		t.Errorf("closing: %v", err)
	}
	if s.Failed() {
		t.Error("the process would have been ended amid its end")
	}
}
