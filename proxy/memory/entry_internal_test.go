package memory

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// If a write settles without a copy, just after upstream's 404 for its entry, the absence does not hide it.
func TestAnAbsenceHidesNoWriteThatLeftNoCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := &fillingDisk{}
		r := newRig(t, func(o *journal.Options, _ *Options) { free.FS, o.FS, o.DiskReserve = o.FS, free, 1<<20 })
		k := id("n", "k")
		lease := r.cache.Lease(entryKey(k))
		defer lease.Release()
		_, err := r.journal.Fill(k, nil, func() bool { return !lease.Revoked() })
		noError(t, err)
		r.put(k, "mine")
		free.full.Store(true)
		time.Sleep(time.Second) // the journal notices
		r.upstream.set(k, "mine")
		r.settle(k)
		r.rememberAbsence(k, func() (journal.State, bool) { return journal.State{}, lease.Changes() == 1 })
		synctest.Wait() // the cache stores it
		r.wantValue(k, "mine")
	})
}

// A GET that has to wait goes by what it has found at once, unless the entry has changed since.
func TestAMissLooksOnce(t *testing.T) {
	r, k := newRig(t), id("n", "k")
	r.upstream.set(k, "theirs")
	miss := func() *Request {
		q := &Request{Verb: GetEntry, ID: k, Directives: AnyAge, AtOnce: true}
		if _, err := r.Do(t.Context(), q); !errors.Is(err, ErrWaits) {
			t.Fatal(err)
		}
		q.AtOnce = false
		q.known.item, q.known.excluded = &cache.Item{}, true // a mark, which the answer's source shows
		return q
	}
	first, second := miss(), miss()
	got, err := r.Do(t.Context(), first)
	noError(t, err)
	if got.Source != FromDemand {
		t.Errorf("it has looked again: %v", got.Source)
	}
	got, err = r.Do(t.Context(), second)
	noError(t, err)
	if n := r.upstream.asked.Load(); got.Source != FromCache || n != 1 {
		t.Errorf("the first one's answer is not seen: %v; upstream is asked %d times", got.Source, n)
	}
}

// fillingDisk has no free space once it is full.
type fillingDisk struct {
	vfs.FS
	full atomic.Bool
}

func (d *fillingDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.full.Load() {
		return vfs.DiskUsage{}, nil
	}
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}
