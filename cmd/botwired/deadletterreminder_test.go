package main

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The log says that dead letters wait when the journal is read, and then once a day.
func TestReminderOfDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		said := func() int {
			synctest.Wait()
			defer log.Reset()
			return strings.Count(log.String(), "level=WARN")
		}
		read, open := make(chan struct{}), atomic.Int64{}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- remindOfDeadLetters(ctx, read, func() int { return int(open.Load()) }, logger)
		}()
		open.Store(2)
		if n := said(); n != 0 {
			t.Errorf("%d lines before the journal is read", n)
		}
		close(read)
		synctest.Wait()
		if text := log.String(); !strings.Contains(text, "open_dead_letters=2") || !strings.Contains(text, "botwired dead-letters") {
			t.Errorf("the log says %q", text)
		}
		for i, row := range []struct{ letters, lines int }{{2, 1}, {2, 1}, {0, 0}, {1, 1}} {
			if i > 0 {
				time.Sleep(remindEvery)
			}
			if n := said(); n != row.lines {
				t.Errorf("day %d: %d lines of %d dead letters", i, n, open.Load())
			}
			if i < 3 {
				open.Store([]int64{2, 0, 1}[i])
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
