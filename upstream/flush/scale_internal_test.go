package flush

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/limit"
)

// many is the number of pending entries in the tests of this file, and aMillion in its benchmarks.
const (
	many     = 200_000 / Fewer
	aMillion = 1_000_000
)

// announced returns a flusher that does not run, with n announced writes spread over some namespaces.
func announced(tb testing.TB, n, namespaces int) *Flusher {
	tb.Helper()
	logger := slog.New(slog.DiscardHandler)
	f := New(Options{
		Health:  upstream.NewHealth(upstream.HealthOptions{BackoffInitial: time.Second, BackoffMax: time.Minute, Logger: logger}),
		Journal: rebuiltJournal{}, Engine: inexact{}, Linger: func(string) time.Duration { return time.Hour },
		Slots: limit.NewSlots(16), LateWindow: time.Minute, BackoffInitial: time.Second, BackoffMax: time.Minute,
		Logger: logger,
	})
	for i := range n {
		f.Changed(change(i, namespaces))
	}
	return f
}

func change(i, namespaces int) journal.Change {
	id := journal.ID{Namespace: fmt.Sprint("ns", i%namespaces), Key: fmt.Sprint("key", i)}
	return journal.Change{ID: id, Seq: uint64(i + 1), Written: true}
}

// inexact is an engine that only implements Exact.
type inexact struct{ upstream.Engine }

func (inexact) Exact() bool { return false }

func (inexact) Named(string) bool { return false }

// rebuiltJournal is a journal that only implements Rebuilt.
type rebuiltJournal struct{ Journal }

func (rebuiltJournal) Rebuilt() <-chan struct{} {
	rebuilt := make(chan struct{})
	close(rebuilt)
	return rebuilt
}

// During flushes, announcing a write takes about as long as alone. It does not wait for all pending entries.
func TestAWriteWaitsForNothingLong(t *testing.T) {
	flush := func(f *Flusher) { f.leaveFlush(f.expedite("")) }
	for name, row := range map[string]struct {
		namespaces int
		amid       func(*Flusher)
	}{
		"flushes of one namespace":   {1, flush},
		"flushes of many namespaces": {many / 10, flush},
	} {
		t.Run(name, func(t *testing.T) {
			f := announced(t, many, row.namespaces)
			began := time.Now()
			row.amid(f)
			whole := time.Since(began)
			alone := announcing(f, row.namespaces, many)
			var over atomic.Bool
			var others sync.WaitGroup
			others.Go(func() {
				for !over.Load() {
					row.amid(f)
					time.Sleep(100 * time.Microsecond)
				}
			})
			amid := announcing(f, row.namespaces, many+announcements)
			over.Store(true)
			others.Wait()
			t.Logf("a write takes %v alone, and %v amid what takes %v", alone, amid, whole)
			if amid > max(100*alone, whole/10) {
				t.Errorf("a write takes %v alone, and %v amid what takes %v", alone, amid, whole)
			}
		})
	}
}

// announcements is the number of timed writes.
const announcements = 500

// announcing returns the median time to announce a write.
func announcing(f *Flusher, namespaces, from int) time.Duration {
	took := make([]time.Duration, announcements)
	for i := range took {
		c := change(from+i, namespaces)
		began := time.Now()
		f.Changed(c)
		took[i] = time.Since(began)
		time.Sleep(100 * time.Microsecond) // otherwise most writes would come between two chunks
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func BenchmarkFlushOfAMillion(b *testing.B) {
	for _, namespaces := range []int{1, 100_000} {
		b.Run(fmt.Sprint(namespaces, "namespaces"), func(b *testing.B) {
			f := announced(b, aMillion, namespaces)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				f.leaveFlush(f.expedite(""))
			}
		})
	}
}

// BenchmarkWaiters ends attempts while callers wait for all entries.
func BenchmarkWaiters(b *testing.B) {
	for _, callers := range []int{0, 100} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			f := announced(b, 40_000, 1)
			for range callers {
				f.expedite("")
			}
			id := journal.ID{Namespace: "ns0", Key: "key"}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				f.callers.completed(id, uint64(i), 1, 2, false, nil)
			}
		})
	}
}

// BenchmarkAnnounce measures what a write costs in the schedule, and the longest time that one takes.
func BenchmarkAnnounce(b *testing.B) {
	f := announced(b, 0, 1)
	var worst time.Duration
	b.ReportAllocs()
	for i := range b.N {
		c := change(i, 10)
		began := time.Now()
		f.Changed(c)
		worst = max(worst, time.Since(began))
	}
	b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
}
