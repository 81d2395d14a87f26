package feed_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func follow(t *testing.T, f *feed.Feed[string]) *feed.Reader[string] {
	t.Helper()
	r, err := f.Follow()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func resume(t *testing.T, f *feed.Feed[string], after uint64) (*feed.Reader[string], bool) {
	t.Helper()
	r, ok, err := f.Resume(after)
	if err != nil {
		t.Fatal(err)
	}
	return r, ok
}

// wantRead reads up to most records.
func wantRead(t *testing.T, r *feed.Reader[string], most int, missed uint64, values ...string) {
	t.Helper()
	records := make([]feed.Record[string], most)
	n, lost := r.Read(records)
	var got []string
	for _, record := range records[:n] {
		got = append(got, record.Value)
	}
	if diff := cmp.Diff(values, got); diff != "" || lost != missed {
		t.Errorf("it has missed %d, want %d, and read (-want +got):\n%s", lost, missed, diff)
	}
}

func addAll(f *feed.Feed[string], from, to int) {
	for i := from; i <= to; i++ {
		f.Add(fmt.Sprint(i))
	}
}

func TestReadersReadOnTheirOwn(t *testing.T) {
	f := feed.New[string](feed.Options{Size: 4, Readers: 2})
	f.Add("nobody reads")
	first := follow(t, f)
	addAll(f, 1, 3)
	second := follow(t, f)
	wantRead(t, first, 2, 0, "1", "2")
	addAll(f, 4, 4)
	wantRead(t, second, 9, 0, "4")
	wantRead(t, first, 9, 0, "3", "4")
	wantRead(t, first, 9, 0)
}

func TestASlowReaderIsToldWhatItMisses(t *testing.T) {
	f := feed.New[string](feed.Options{Size: 4, Readers: 1})
	r := follow(t, f)
	addAll(f, 1, 10)
	wantRead(t, r, 2, 6, "7", "8")
	wantRead(t, r, 9, 0, "9", "10")
	addAll(f, 11, 20)
	if last := r.Skip(); last != 20 || r.Seen() != 20 {
		t.Errorf("after the skip it has seen %d, and says %d, want 20", r.Seen(), last)
	}
	addAll(f, 21, 21)
	wantRead(t, r, 9, 0, "21")
}

// Beyond a burst, records are only counted, so that nobody pays for records that no reader can take.
func TestABurstIsCutShort(t *testing.T) {
	f := feed.New[string](feed.Options{Size: 100, Readers: 1, Burst: 3})
	r := follow(t, f)
	addAll(f, 1, 5)
	wantRead(t, r, 9, 0, "1", "2", "3")
	wantRead(t, r, 9, 2)
	addAll(f, 6, 6)
	wantRead(t, r, 9, 0, "6")
	addAll(f, 7, 11)
	wantRead(t, r, 2, 0, "7", "8")
	addAll(f, 12, 12)
	wantRead(t, r, 9, 0, "9")
	wantRead(t, r, 9, 2, "12")
}

func TestReadersAreBounded(t *testing.T) {
	f := feed.New[string](feed.Options{Size: 4, Readers: 1})
	r := follow(t, f)
	if _, err := f.Follow(); !errors.Is(err, feed.ErrTooMany) {
		t.Errorf("a second reader: %v", err)
	}
	if _, _, err := f.Resume(0); !errors.Is(err, feed.ErrTooMany) {
		t.Errorf("a second reader that comes back: %v", err)
	}
	r.Close()
	r.Close()
	if f.Wanted() {
		t.Error("records are wanted though nobody reads")
	}
	f.Add("nobody reads")
	wantRead(t, r, 9, 0)
	follow(t, f)
}

func TestResume(t *testing.T) {
	f := feed.New[string](feed.Options{Size: 4, Readers: 9})
	follow(t, f)
	addAll(f, 1, 6)
	for after, want := range map[uint64][]string{2: {"3", "4", "5", "6"}, 5: {"6"}, 6: nil} {
		r, ok := resume(t, f, after)
		if !ok {
			t.Errorf("it does not resume after %d", after)
		}
		wantRead(t, r, 9, 0, want...)
	}
	for _, after := range []uint64{0, 1, 7, 1 << 63} {
		r, ok := resume(t, f, after)
		if ok {
			t.Errorf("it resumes after %d", after)
		}
		wantRead(t, r, 9, 0)
	}
}

// A reader that comes back in time has missed nothing. A later one learns that it may have.
func TestRecordsAreKeptForAReaderThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := feed.New[string](feed.Options{Size: 4, Readers: 1, Keeps: time.Minute})
		r := follow(t, f)
		addAll(f, 1, 1)
		r.Close()
		time.Sleep(time.Minute - 1)
		addAll(f, 2, 2)
		r, ok := resume(t, f, 1)
		if !ok {
			t.Fatal("a minute is not over, and the record is gone")
		}
		wantRead(t, r, 9, 0, "2")
		time.Sleep(time.Minute) // a reader is there: the recording goes on
		addAll(f, 3, 3)
		wantRead(t, r, 9, 0, "3")
		r.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		if f.Wanted() {
			t.Error("a minute after the last reader, records are still wanted")
		}
		if r, ok = resume(t, f, 3); ok {
			t.Error("it resumes though there was a time of which nobody knows")
		}
		r.Close()
		if r, ok = resume(t, f, 3); ok {
			t.Error("it resumes once others read again, though there was a time of which nobody knows")
		}
		r.Close()
		time.Sleep(time.Hour)
	})
}

func TestAReaderIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := feed.New[string](feed.Options{Size: 4, Readers: 1})
		r := follow(t, f)
		wantRead(t, r, 9, 0)
		woken := false
		go func() { <-r.Wake(); woken = true }()
		synctest.Wait()
		if woken {
			t.Fatal("it is woken and there is nothing")
		}
		f.Add("1")
		synctest.Wait()
		if !woken {
			t.Fatal("it sleeps on")
		}
	})
}

// A reader reads or misses each record, in order, while others add and leave.
func TestNothingIsLostWithoutAWord(t *testing.T) {
	const writers, each = 4, 5000
	for _, burst := range []int64{0, 7} {
		f := feed.New[string](feed.Options{Size: 16, Readers: 3, Burst: burst})
		readers := []*feed.Reader[string]{follow(t, f), follow(t, f), follow(t, f)}
		var writing, reading sync.WaitGroup
		for range writers {
			writing.Go(func() { addAll(f, 1, each) })
		}
		done := make(chan struct{})
		for _, r := range readers {
			reading.Go(func() {
				records := make([]feed.Record[string], 5)
				for at, over := uint64(0), false; ; {
					n, missed := r.Read(records)
					at += missed
					for _, record := range records[:n] {
						if at++; record.Number != at {
							t.Errorf("record %d, want %d", record.Number, at)
							return
						}
					}
					if n > 0 || missed > 0 {
						continue
					}
					if over {
						if at != writers*each {
							t.Errorf("it has heard of %d records, want %d", at, writers*each)
						}
						return
					}
					select {
					case <-r.Wake():
					case <-done:
						over = true
					}
				}
			})
		}
		writing.Wait()
		close(done)
		reading.Wait()
	}
}

// An unwanted record costs an atomic load.
func BenchmarkAddUnwanted(b *testing.B) {
	f := feed.New[string](feed.Options{Size: 16, Readers: 1})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f.Add("v")
		}
	})
}

func BenchmarkAddBeyondTheBurst(b *testing.B) {
	f := feed.New[string](feed.Options{Size: 16, Readers: 1, Burst: 1})
	if _, err := f.Follow(); err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f.Add("v")
		}
	})
}
