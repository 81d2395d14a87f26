package journal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// tick makes the next write's time differ clearly.
func tick() { time.Sleep(time.Minute) }

// inBubble runs a test on virtual time.
func inBubble(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, test)
}

func TestOverwriteKeepsCreatedAt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		a := key("a")
		created := put(t, j, a, "1").UpdatedAt
		for i, step := range []func(){
			func() { put(t, j, a, "2") },
			func() { settle(t, j, a) },
			func() { put(t, j, a, "3") },
			func() { put(t, j, a, "4") },
			func() { settle(t, j, a) },
		} {
			before := lookup(t, j, a)
			tick()
			step()
			after := lookup(t, j, a)
			if after.CreatedAt != created || after.UpdatedAt < before.UpdatedAt {
				t.Errorf("step %d: created %v, want %v; updated %v after %v",
					i, after.CreatedAt, created, after.UpdatedAt, before.UpdatedAt)
			}
		}
	})
}

func TestPutAfterDeleteBeginsAnew(t *testing.T) {
	for name, deleted := range map[string]func(*testing.T, *journal.Journal, journal.ID){
		"pending":             func(*testing.T, *journal.Journal, journal.ID) {},
		"settled before":      func(t *testing.T, j *journal.Journal, id journal.ID) { settle(t, j, id) },
		"with an older write": func(t *testing.T, j *journal.Journal, id journal.ID) { put(t, j, id, "x"); remove(t, j, id) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				j := open(t, fs)
				a := key("a")
				put(t, j, a, "1")
				settle(t, j, a)
				tick()
				remove(t, j, a)
				deleted(t, j, a)
				tick()
				createdAt := put(t, j, a, "2").UpdatedAt
				tick()
				put(t, j, a, "3")
				want := func(j *journal.Journal) {
					t.Helper()
					if state := lookup(t, j, a); state.CreatedAt != createdAt {
						t.Errorf("created %v, want %v", state.CreatedAt, createdAt)
					}
				}
				want(j)
				j = open(t, crash(fs))
				want(j)
				settle(t, j, a)
				want(j)
				tick()
				put(t, j, a, "4")
				want(j)
			})
		})
	}
}

// If a delete settles while the put after it is pending, the put does not change.
func TestDeleteSettlesBeforeThePutAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		a := key("a")
		put(t, j, a, "1")
		settle(t, j, a)
		remove(t, j, a)
		tombstone, _, err := j.Newest(a)
		no(t, err)
		tick()
		createdAt := put(t, j, a, "2").UpdatedAt
		no(t, j.Settle(tombstone))
		if state := expect(t, j, a, journal.Value, "2"); state.CreatedAt != createdAt {
			t.Errorf("created %v, want %v", state.CreatedAt, createdAt)
		}
		settle(t, j, a)
		if state := expect(t, j, a, journal.Settled, "2"); state.CreatedAt != createdAt {
			t.Errorf("created %v, want %v", state.CreatedAt, createdAt)
		}
		check(t, j)
	})
}

// Upstream's clock, or this host's before it was set back, may be ahead. No answer shows an entry with
// an older time than an earlier answer did.
func TestUpdatedAtNeverDecreases(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		a := key("a")
		ahead := float64(time.Now().Unix()) + 3600
		_, err := j.Fill(a, &journal.Observation{Value: "0", CreatedAt: ahead - 10, UpdatedAt: ahead}, always)
		no(t, err)
		for i, step := range []func(){
			func() { put(t, j, a, "1") },
			func() { settle(t, j, a) },
			func() { remove(t, j, a) },
			func() { put(t, j, a, "2") },
			func() {
				_, err := j.Fill(key("a"), &journal.Observation{Value: "2", UpdatedAt: ahead - 100}, always)
				no(t, err)
			},
			func() { settle(t, j, a) },
		} {
			step()
			if state := lookup(t, j, a); state.UpdatedAt < ahead {
				t.Errorf("step %d: updated %v, want at least %v", i, state.UpdatedAt, ahead)
			}
		}
	})
}

func TestLaterWriteIsNewerInAListing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		last := 0.0
		for i := range 100 { // the clock of the bubble stands still
			w := put(t, j, key("%d", i), "x")
			if w.UpdatedAt <= last {
				t.Fatalf("write %d is of %v, after %v", i, w.UpdatedAt, last)
			}
			last = w.UpdatedAt
		}
	})
}
