package journal_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// contract 3: a journal that takes no writes says since when and why. It logs when that begins and when
// it is over, and nothing in between.
func TestRefusalIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reserve = 1 << 20
		d := &disk{FS: vfs.NewMem()}
		d.free.Store(10 * reserve)
		var log bytes.Buffer
		j := open(t, d, func(o *journal.Options) {
			o.DiskReserve, o.Logger = reserve, slog.New(slog.NewTextHandler(&log, nil))
		})
		wants := func(since time.Time, begun, over int) {
			t.Helper()
			err := j.Err()
			if at, why := j.Full(); (why == nil) != since.IsZero() || !at.Equal(since) || (errors.Is(err, journal.ErrFull)) != !since.IsZero() {
				t.Errorf("full since %s, %v; want %s", at, err, since)
			}
			for text, n := range map[string]int{"the journal refuses writes": begun, "the journal takes writes again": over} {
				if got := strings.Count(log.String(), text); got != n {
					t.Errorf("%q is logged %d times, want %d: %s", text, got, n, &log)
				}
			}
		}
		maintain(t, j, 10*time.Second+time.Millisecond)
		wants(time.Time{}, 0, 0)

		d.free.Store(reserve - 1)
		began := time.Now().Add(time.Second - time.Millisecond)
		maintain(t, j, time.Minute)
		at, _ := j.Full()
		if at.Sub(began).Abs() > time.Second || !strings.Contains(log.String(), "journal.disk_reserve") {
			t.Errorf("full since %s, want some %s: %s", at, began, &log)
		}
		wants(at, 1, 0)

		// If there is room for a moment repeatedly, the log reports neither an end nor a beginning.
		for range 5 {
			d.free.Store(10 * reserve)
			maintain(t, j, 2*time.Second)
			wants(time.Time{}, 1, 0)
			d.free.Store(reserve - 1)
			maintain(t, j, 2*time.Second)
			wants(at, 1, 0)
		}
		d.free.Store(10 * reserve)
		maintain(t, j, time.Minute)
		wants(time.Time{}, 1, 1)
		d.free.Store(reserve - 1)
		maintain(t, j, time.Minute)
		if again, _ := j.Full(); again.Sub(at) < time.Minute {
			t.Errorf("the second time, it is full since %s", again)
		}
		at, _ = j.Full()
		wants(at, 2, 1)
	})
}

// A journal with room only for small writes reports the large ones that it refuses.
func TestRefusalOfALargeWriteIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem(), budget(4*one))
		no(t, write(j, key("a"), 100))
		began := time.Now()
		for range 20 {
			if err := write(j, key("b"), 10_000); !errors.Is(err, journal.ErrFull) {
				t.Fatalf("error is %v", err)
			}
			no(t, j.Err())
			if at, why := j.Full(); !at.Equal(began) || !errors.Is(why, journal.ErrFull) {
				t.Errorf("full since %s, %v; want %s", at, why, began)
			}
			maintain(t, j, 2*time.Second)
		}
		maintain(t, j, time.Minute)
		if at, why := j.Full(); !at.IsZero() || why != nil {
			t.Errorf("a minute later, full since %s, %v", at, why)
		}
	})
}
