package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// limited gives a journal sizes with one limit for all namespaces.
func limited(limit int64) (*journal.Sizes, func(*journal.Options)) {
	return limitedBy(func(string) int64 { return limit }, slog.New(slog.DiscardHandler))
}

func limitedBy(limit func(string) int64, logger *slog.Logger) (*journal.Sizes, func(*journal.Options)) {
	sizes := journal.NewSizes(journal.SizesOptions{Limit: limit, Logger: logger})
	return sizes, func(o *journal.Options) { o.Sizes = sizes }
}

// sized checks the size of the namespace of [key].
func sized(t testing.TB, s *journal.Sizes, want int64) {
	t.Helper()
	no(t, s.CountLoose())
	if got := s.Of("ns").Bytes; got != want {
		t.Fatalf("the namespace holds %d bytes, want %d", got, want)
	}
}

func tryPut(j *journal.Journal, id journal.ID, bytes int) error {
	_, err := j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: strings.Repeat("v", bytes), ListBytes: bytes})
	return err
}

func refusedAsFull(t testing.TB, err error) *journal.NamespaceFullError {
	t.Helper()
	full, ok := errors.AsType[*journal.NamespaceFullError](err)
	if !ok {
		t.Fatalf("the error is %v, want one that says that the namespace is full", err)
	}
	return full
}

func list(t testing.TB, j *journal.Journal, complete bool, rows ...journal.Row) {
	t.Helper()
	no(t, j.BeginListing("ns").Commit(rows, complete))
}

// show makes upstream show an entry with this many bytes, or with -1 an absence.
func show(t testing.TB, j *journal.Journal, id journal.ID, bytes int) {
	t.Helper()
	var o *journal.Observation
	if bytes >= 0 {
		o = &journal.Observation{Value: strings.Repeat("f", bytes), ListBytes: bytes, UpdatedAt: 1}
	}
	_, err := j.Fill(id, o, always)
	no(t, err)
}

// The journal refuses a write that would cross the limit, and writes nothing. Even over the limit, it
// accepts every delete, and a write that does not make the namespace larger.
func TestAWriteThatWouldCrossTheLimitIsRefused(t *testing.T) {
	limit := int64(1000)
	sizes, with := limitedBy(func(string) int64 { return limit }, slog.New(slog.DiscardHandler))
	j := open(t, vfs.NewMem(), with)
	no(t, tryPut(j, key("a"), 600))
	no(t, tryPut(j, key("b"), 300))
	full := refusedAsFull(t, tryPut(j, key("c"), 101))
	if want := (journal.NamespaceFullError{Namespace: "ns", Grows: 101, NamespaceSize: journal.NamespaceSize{Bytes: 900, Limit: 1000}}); *full != want {
		t.Errorf("the refusal is %+v, want %+v", *full, want)
	}
	expect(t, j, key("c"), journal.Unknown, "")
	refusedAsFull(t, tryPut(j, key("a"), 701)) // only the difference counts
	no(t, tryPut(j, key("c"), 100))
	sized(t, sizes, 1000)

	settle(t, j, key("a"))
	limit = 500
	no(t, tryPut(j, key("a"), 600))
	no(t, tryPut(j, key("a"), 590))
	refusedAsFull(t, tryPut(j, key("a"), 591))
	remove(t, j, key("b"))
	remove(t, j, key("unknown"))
	sized(t, sizes, 690)
	limit = 0
	no(t, tryPut(j, key("d"), 5000))
	check(t, j)
}

// Of concurrent writes, no more are accepted than fit.
func TestConcurrentWritesShareWhatFits(t *testing.T) {
	sizes, with := limited(1050)
	j := open(t, vfs.NewMem(), with)
	show(t, j, key("0"), 100)
	sized(t, sizes, 100)
	var taken atomic.Int64
	together(16, func(w int) {
		for i := range 4 {
			if err := tryPut(j, key("%d", 4*w+i), 100); err == nil {
				taken.Add(1)
			}
		}
	})
	if got := taken.Load(); got != 10 && got != 9 { // the write to the known entry adds nothing
		t.Errorf("%d writes were taken, want 9 and perhaps that of the known entry", got)
	}
	sized(t, sizes, 1000)
}

// A write that settles counts the difference, even if others to its entry arrive at that moment.
func TestSettlingDuringWritesIsCounted(t *testing.T) {
	sizes, with := limited(1 << 40)
	j := open(t, vfs.NewMem(), with)
	keys := []journal.ID{key("0"), key("1"), key("2")}
	together(4, func(w int) {
		for i := range 300 {
			id := keys[i%len(keys)]
			if w > 0 {
				if err := tryPut(j, id, 1+(i*w)%97); err != nil {
					t.Error(err)
				}
				continue
			}
			newest, ok, err := j.Newest(id)
			if err == nil && ok {
				err = j.Settle(newest)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	for _, id := range keys {
		if _, ok, err := j.Newest(id); err == nil && ok {
			settle(t, j, id)
		}
	}
	sized(t, sizes, brute(t, j, keys))
}

// Another host's writes and deletes count as soon as a listing or an answer shows them.
func TestWhatOthersWriteCountsOnceItIsSeen(t *testing.T) {
	sizes, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	no(t, tryPut(j, key("mine"), 100))
	settle(t, j, key("mine"))
	list(t, j, true, journal.Row{Key: "mine", ListBytes: 100, UpdatedAt: 1}, journal.Row{Key: "theirs", ListBytes: 850, UpdatedAt: 2})
	sized(t, sizes, 950)
	refusedAsFull(t, tryPut(j, key("more"), 51))
	no(t, tryPut(j, key("theirs"), 900)) // it replaces theirs
	no(t, j.MaintainOnce())
	sized(t, sizes, 1000)
	settle(t, j, key("theirs"))
	show(t, j, key("theirs"), 10)
	sized(t, sizes, 110)
	show(t, j, key("theirs"), -1)
	sized(t, sizes, 100)
	list(t, j, true)
	sized(t, sizes, 0)
}

// A write that upstream refuses no longer counts. It counts again when a person retries it.
func TestDeadLettersDoNotCount(t *testing.T) {
	sizes, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	show(t, j, key("a"), 300)
	no(t, tryPut(j, key("a"), 900))
	sized(t, sizes, 900)
	w, _, err := j.Newest(key("a"))
	no(t, err)
	no(t, j.DeadLetter(w, journal.Failure{Status: 413}))
	sized(t, sizes, 300)
	no(t, tryPut(j, key("b"), 700))
	_, err = j.Retry(w.Seq, journal.AnyWrite)
	no(t, err)
	sized(t, sizes, 1600)
}

// After a restart the count is the same. Before the disk is counted, it is too low.
func TestSizesOutliveTheProcess(t *testing.T) {
	fs := vfs.NewCrashableMem()
	sizes, with := limited(1000)
	j := open(t, fs, with)
	no(t, tryPut(j, key("pending"), 200))
	no(t, tryPut(j, key("both"), 500))
	settle(t, j, key("both"))
	no(t, tryPut(j, key("both"), 400))
	show(t, j, key("copied"), 300)
	sized(t, sizes, 900)

	again, with := limited(1000)
	j = reopen(t, crash(fs), with)
	no(t, tryPut(j, key("both"), 450))
	if got := again.Of("ns").Bytes; got != 50 {
		t.Errorf("before the disk is counted, the namespace holds %d bytes, want the 50 written since", got)
	}
	no(t, j.Run(t.Context()))
	sized(t, again, 950) // the entry with both counts once
	refusedAsFull(t, tryPut(j, key("more"), 51))
	no(t, tryPut(j, key("more"), 50))
}

// Upstream's refusal makes the present size the limit, until an hour has passed, upstream accepts a
// growing write, or an unknown entry is deleted.
func TestUpstreamsRefusalIsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes, with := limited(0)
		j := open(t, vfs.NewMem(), with)
		no(t, tryPut(j, key("a"), 100))
		settle(t, j, key("a"))
		no(t, tryPut(j, key("b"), 50))
		learnt := func() {
			t.Helper()
			sizes.Learn("ns")
			refusedAsFull(t, tryPut(j, key("c"), 1))
		}
		learnt()
		if got := sizes.Of("ns"); got.Limit != 150 || time.Until(got.LearnedUntil) != time.Hour {
			t.Errorf("the limit is %+v, want 150 for an hour", got)
		}
		no(t, tryPut(j, key("a"), 90))
		no(t, tryPut(j, key("c"), 10))
		settle(t, j, key("c")) // upstream takes it, so there is room
		no(t, tryPut(j, key("d"), 10))

		sizes.Learn("ns")
		refusedAsFull(t, tryPut(j, key("e"), 1))
		remove(t, j, key("unknown"))
		settle(t, j, key("unknown"))
		no(t, tryPut(j, key("e"), 10))
		sizes.Learn("ns")
		time.Sleep(time.Hour - time.Second)
		refusedAsFull(t, tryPut(j, key("f"), 1))
		time.Sleep(time.Second)
		no(t, tryPut(j, key("f"), 1))
		if got := sizes.Of("ns"); got.Limit != 0 || !got.LearnedUntil.IsZero() {
			t.Errorf("after an hour there is a limit: %+v", got)
		}
	})
}

// The log says once that a namespace is nearly full, and once that it is full, until the namespace has
// been well below.
func TestTheLogSaysWhenANamespaceIsNearlyFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		sizes, with := limitedBy(func(string) int64 { return 1000 }, slog.New(slog.NewTextHandler(&log, nil)))
		j := open(t, vfs.NewMem(), with)
		says := func(nearly, full int) {
			t.Helper()
			no(t, j.MaintainOnce())
			text := log.String()
			if n, f := strings.Count(text, "is nearly full"), strings.Count(text, "is full"); n != nearly || f != full {
				t.Fatalf("the log says nearly full %d times and full %d times, want %d and %d:\n%s", n, f, nearly, full, text)
			}
		}
		no(t, tryPut(j, key("a"), 799))
		says(0, 0)
		if near := sizes.NearlyFull(); len(near) != 0 {
			t.Errorf("nearly full are %v", near)
		}
		no(t, tryPut(j, key("a"), 800))
		says(1, 0)
		no(t, tryPut(j, key("a"), 760))
		no(t, tryPut(j, key("a"), 900))
		says(1, 0)
		refusedAsFull(t, tryPut(j, key("b"), 101))
		refusedAsFull(t, tryPut(j, key("b"), 101))
		says(1, 1)
		if near := sizes.NearlyFull(); near["ns"] != (journal.NamespaceSize{Bytes: 900, Limit: 1000}) {
			t.Errorf("nearly full are %v", near)
		}
		no(t, tryPut(j, key("a"), 740))
		if near := sizes.NearlyFull(); len(near) != 0 {
			t.Errorf("nearly full are %v", near)
		}
		no(t, tryPut(j, key("a"), 850))
		says(1, 1) // not again so soon
		time.Sleep(time.Minute)
		no(t, tryPut(j, key("a"), 740))
		says(1, 1)
		list(t, j, true, journal.Row{Key: "theirs", ListBytes: 100, UpdatedAt: 1})
		no(t, sizes.CountLoose())
		says(2, 1)
		no(t, tryPut(j, key("a"), 600))
		time.Sleep(time.Minute)
		no(t, tryPut(j, key("a"), 750)) // well below the whole time
		says(3, 1)
	})
}

// The journal subtracts the bytes that a namespace's pending writes replace before it calls the
// namespace nearly full.
func TestPendingWritesCountOnceNearTheLimit(t *testing.T) {
	var log bytes.Buffer
	sizes, with := limitedBy(func(string) int64 { return 1000 }, slog.New(slog.NewTextHandler(&log, nil)))
	j := open(t, vfs.NewMem(), with)
	show(t, j, key("copied"), 300)
	list(t, j, true, journal.Row{Key: "copied", ListBytes: 300, UpdatedAt: 1}, journal.Row{Key: "listed", ListBytes: 200, UpdatedAt: 1})
	no(t, tryPut(j, key("copied"), 310))
	no(t, tryPut(j, key("listed"), 200))
	sized(t, sizes, 510) // the second one seemed to cross the limit, so both were measured
	no(t, tryPut(j, key("copied"), 300))
	no(t, j.MaintainOnce())
	sized(t, sizes, 500)
	if near := sizes.NearlyFull(); len(near) != 0 || log.Len() > 0 {
		t.Errorf("nearly full are %v, and the log says %q", near, &log)
	}
	no(t, tryPut(j, key("new"), 500))
	refusedAsFull(t, tryPut(j, key("listed"), 201))
	for _, name := range []string{"copied", "listed", "new"} {
		settle(t, j, key("%s", name))
		sized(t, sizes, 1000)
	}
}

// Far from the limit, the journal does not look up what a put replaces. Until the namespace is counted
// again, both count.
func TestAPutCountsAsNewFarFromTheLimit(t *testing.T) {
	sizes, with := limited(1000)
	j := open(t, vfs.NewMem(), with)
	show(t, j, key("a"), 100)
	show(t, j, key("b"), 50)
	sized(t, sizes, 150)
	no(t, tryPut(j, key("a"), 90))
	if got := sizes.Of("ns").Bytes; got != 240 {
		t.Errorf("the namespace holds %d bytes, want 240", got)
	}
	no(t, tryPut(j, key("b"), 40)) // with that, it holds a quarter
	if got := sizes.Of("ns").Bytes; got != 230 {
		t.Errorf("the namespace holds %d bytes, want 230", got)
	}
	sized(t, sizes, 130)
}

// The count is right in the end, even if writes arrive and settle at the same time.
func TestSizesUnderLoad(t *testing.T) {
	sizes, with := limited(20_000)
	j := open(t, vfs.NewMem(), with)
	keys := make([]journal.ID, 64)
	for i := range keys {
		keys[i] = key("%d", i)
	}
	var refused atomic.Int64
	together(6, func(w int) {
		for i := range 200 {
			id := keys[(i*7+w)%len(keys)]
			switch w {
			case 0:
				newest, ok, err := j.Newest(id)
				if err == nil && ok {
					err = j.Settle(newest)
				}
				if err != nil {
					t.Error(err)
				}
			case 1:
				if err := j.MaintainOnce(); err != nil {
					t.Error(err)
				}
			default:
				if tryPut(j, id, 1+(i*w*37)%600) != nil {
					refused.Add(1)
				}
			}
		}
	})
	if refused.Load() == 0 {
		t.Error("no write was refused: the limit is not near")
	}
	for _, id := range keys {
		if _, ok, err := j.Newest(id); err == nil && ok {
			settle(t, j, id)
		}
	}
	sized(t, sizes, brute(t, j, keys))
}

// Each namespace costs little memory, and an empty one costs none.
func TestSizesOfManyNamespacesTakeLittleMemory(t *testing.T) {
	const namespaces = 10_000
	fs := vfs.NewMem()
	sizes, with := limited(1000)
	j := open(t, fs, with)
	ids := make([]journal.ID, namespaces)
	for i := range ids {
		ids[i] = journal.ID{Namespace: fmt.Sprintf("namespace-%05d", i), Key: "k"}
	}
	together(16, func(w int) {
		for i := w; i < namespaces; i += 16 {
			if err := tryPut(j, ids[i], 900); err != nil {
				t.Error(err)
			}
		}
	})
	if got := len(sizes.NearlyFull()); got != namespaces {
		t.Fatalf("%d namespaces are counted, want %d", got, namespaces)
	}
	if got := journal.SizeOfSizes() * namespaces; got > 2<<20 {
		t.Errorf("they take %d bytes beside their names", got)
	}
	settle(t, j, ids[0])
	no(t, j.Close())
	sizes, with = limited(0)
	j = open(t, fs, with)
	for _, id := range ids[:100] {
		remove(t, j, id)
		settle(t, j, id)
	}
	no(t, sizes.CountLoose())
	if got := sizes.Namespaces(); got != namespaces-100 {
		t.Errorf("%d namespaces are remembered, want %d", got, namespaces-100)
	}
}
