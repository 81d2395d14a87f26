package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// together runs f n times concurrently.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// contract 5 and 6: of all writes to an entry the one with the highest sequence number stays. A caller
// reads its own write or a later one.
func TestConcurrentWritesHaveOneOrder(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a := key("a")
	var mu sync.Mutex
	values := make(map[uint64]string)
	together(16, func(i int) {
		last := uint64(0)
		for k := range 50 {
			value := fmt.Sprint(i, "/", k)
			w, err := j.Append(journal.NewWrite{ID: a, Op: journal.Put, Value: value})
			state, lookupErr := j.Lookup(a)
			if err != nil || lookupErr != nil {
				t.Error(err, lookupErr)
				return
			}
			if state.Seq < w.Seq || state.Seq < last {
				t.Errorf("read write %d after write %d and a read of %d", state.Seq, w.Seq, last)
			}
			last = state.Seq
			mu.Lock()
			if values[w.Seq] != "" {
				t.Errorf("write %d was there before", w.Seq)
			}
			values[w.Seq] = value
			mu.Unlock()
		}
	})
	expect(t, j, a, journal.Value, values[16*50])
	check(t, j)
	expect(t, open(t, crash(fs)), a, journal.Value, values[16*50])
}

// Writers race with a flusher that settles, dead-letters and retries. Reads never go back, the totals
// are always right, and nothing is left over.
func TestWritersRaceWithSettling(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	const entries, writers, writes = 4, 8, 60
	var writing, flushing sync.WaitGroup
	stop := make(chan struct{})
	for i := range writers {
		writing.Go(func() {
			for k := range writes {
				id := key("%d", (i+k)%entries)
				op := journal.Put
				if k%7 == 0 {
					op = journal.Delete
				}
				w, err := j.Append(journal.NewWrite{ID: id, Op: op, Value: fmt.Sprintf("%030d", k)})
				if err != nil {
					t.Error(err)
					return
				}
				if state, err := j.Lookup(id); err != nil || (state.Seq != 0 && state.Seq < w.Seq) {
					t.Errorf("read write %d after write %d: %v", state.Seq, w.Seq, err)
				}
			}
		})
	}
	for e := range entries {
		flushing.Go(func() { carry(t, j, key("%d", e), stop) })
	}
	flushing.Go(func() {
		for open := true; open; {
			select {
			case <-stop:
				open = false
			default:
			}
			if err := j.Check(); err != nil {
				t.Error(err)
				return
			}
			_, _ = overlayOf(j, "ns")
			_, _ = j.PendingList("", 10), j.Stats()
		}
	})
	writing.Wait()
	close(stop)
	flushing.Wait()
	check(t, j)
	if st := j.Stats(); st.Pending != 0 || st.PendingBytes != 0 || st.OldestSince != 0 {
		t.Errorf("stats are %+v", st)
	}
	after := open(t, crash(fs))
	check(t, after)
	if st := after.Stats(); st.Pending != 0 {
		t.Errorf("after a crash: %+v", st)
	}
}

// carry settles and dead-letters an entry's writes like a flusher, one at a time, until it is stopped
// and done.
func carry(t *testing.T, j *journal.Journal, id journal.ID, stop chan struct{}) {
	stopped := false
	for n := 0; ; n++ {
		if !stopped {
			select {
			case <-stop:
				stopped = true
			default:
			}
		}
		w, ok, err := j.Newest(id)
		switch {
		case err != nil:
		case !ok && stopped:
			return
		case !ok:
			continue
		case n%5 == 0 && !stopped:
			if err = j.DeadLetter(w, journal.Failure{Status: 400, Reason: "bad"}); err == nil {
				_, err = j.Retry(w.Seq, journal.AnyWrite)
				if errors.Is(err, journal.ErrNoDeadLetter) {
					err = nil // a newer write was pending
				}
			}
		default:
			err = errors.Join(second(j.MarkSent(w)), j.Settle(w))
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// Two fills and a write of one entry race, and no caller waits forever.
func TestConcurrentFills(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	together(8, func(i int) {
		for k := range 40 {
			var err error
			switch (i + k) % 4 {
			case 0:
				_, err = j.Fill(a, nil, always)
			case 1:
				err = j.BeginListing("ns").Commit(rows("a", fmt.Sprint(k)), true)
			default:
				_, err = j.Fill(a, observed(fmt.Sprint(k)), always)
			}
			if err != nil && !errors.Is(err, journal.ErrChanged) {
				t.Error(err)
			}
			_, err1 := j.Lookup(a)
			_, _, err2 := j.Listing("ns", allRows)
			if err := errors.Join(err1, err2); err != nil {
				t.Error(err)
			}
		}
	})
	if n := j.NotDurable(); n != 0 {
		t.Errorf("readers wait for %d fills", n)
	}
}

// Compare-and-set: of the callers that saw the same state, exactly one wins.
func TestConditionalWritesExclude(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	var mu sync.Mutex
	var followed []uint64
	together(8, func(int) {
		for range 20 {
			state, err := j.Lookup(a)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = j.Append(journal.NewWrite{ID: a, Op: journal.Put, If: func(newest uint64) bool { return newest == state.Seq }})
			if err != nil && !errors.Is(err, journal.ErrChanged) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				followed = append(followed, state.Seq)
				mu.Unlock()
			}
		}
	})
	slices.Sort(followed)
	if n := len(followed); n == 0 || len(slices.Compact(followed)) != n {
		t.Errorf("%v were followed", followed)
	}
}

// A close that comes amid the end of a write waits for it, and holds it up nowhere.
func TestCloseWaitsForEndings(t *testing.T) {
	for range 20 {
		j := open(t, vfs.NewMem())
		var begun, all sync.WaitGroup
		begun.Add(8)
		for i := range 8 {
			all.Go(func() {
				for k := 0; ; k++ {
					w, err := j.Append(journal.NewWrite{ID: key("%d-%d", i, k), Op: journal.Put, Value: "x"})
					if err == nil {
						err = j.DeadLetter(w, journal.Failure{Kind: journal.Refused, Status: 422})
					}
					if k == 0 {
						begun.Done()
					}
					if err != nil {
						if !errors.Is(err, journal.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		begun.Wait()
		no(t, j.Close())
		all.Wait()
	}
}

// Calls in flight when the journal is closed are finished; later ones are refused.
func TestCloseWaitsForCalls(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	var mu sync.Mutex
	acknowledged := make(map[journal.ID]bool)
	var started, wg sync.WaitGroup
	started.Add(8)
	for i := range 8 {
		wg.Go(func() {
			for k := 0; ; k++ {
				id := key("%d-%d", i, k)
				_, err := j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: "x"})
				if err == nil {
					mu.Lock()
					acknowledged[id] = true
					mu.Unlock()
					_, err = j.Lookup(id)
				}
				if k == 0 {
					started.Done()
				}
				if errors.Is(err, journal.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	started.Wait()
	no(t, j.Close())
	no(t, j.Close())
	wg.Wait()
	if err := j.Err(); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Err = %v", err)
	}
	after := open(t, crash(fs))
	for id := range acknowledged {
		expect(t, after, id, journal.Value, "x")
	}
}
