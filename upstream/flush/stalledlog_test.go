package flush_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// stallAtMost is how long a test's log stalls if the flusher waits for it. A flusher that does not wait
// takes a moment.
const stallAtMost = time.Minute

// A log whose reader stalls blocks only the attempt that logs: the flusher still accepts writes, and
// reports its state.
func TestAStalledLogHoldsUpNobody(t *testing.T) {
	for line, row := range map[string]struct {
		answer func(call) reply
		full   bool
	}{
		"upstream throttles a namespace":       {answer: func(call) reply { return throttled("3000") }},
		"upstream does not let a namespace in": {answer: func(call) reply { return detail(http.StatusForbidden) }},
		"it refuses one write after another":   {answer: func(call) reply { return detail(http.StatusBadRequest) }},
		"upstream is down":                     {answer: func(call) reply { return reply{cut: true} }},
		"upstream is up again":                 {answer: func(c call) reply { return reply{cut: c.n < 8} }},
		"the disk is full":                     {full: true},
		"there is room on the disk again":      {full: true},
		"upstream refused a write for good":    {answer: func(call) reply { return detail(http.StatusBadRequest) }},
	} {
		t.Run(line, func(t *testing.T) {
			giveUp := make(chan struct{}) // outside the bubble: no virtual time passes while the log stalls
			defer time.AfterFunc(stallAtMost, func() { close(giveUp) }).Stop()
			synctest.Test(t, func(t *testing.T) {
				d := &disk{FS: vfs.NewMem()}
				d.free.Store(1 << 30)
				r := newRig(t, newFake(t), d)
				r.answer = row.answer
				var once sync.Once
				r.log.stall = func(l string) {
					if strings.Contains(l, line) {
						once.Do(func() { r.serves(giveUp) })
					}
				}
				for i := range 20 {
					r.put(key(fmt.Sprint(i)), "old")
				}
				if row.full {
					d.free.Store(1 << 20)
				}
				time.Sleep(time.Second)
				d.free.Store(1 << 30)
				r.put(key("0"), "new")
				time.Sleep(time.Hour)
				if n := r.log.lines(line); n == 0 {
					t.Errorf("the log has no such line: %s", r.log.take())
				}
			})
		})
	}
}

// serves fails the test unless a caller is served before giveUp.
func (r *rig) serves(giveUp <-chan struct{}) {
	served := make(chan struct{})
	go func() {
		defer close(served)
		id := journal.ID{Namespace: "other", Key: "k"}
		if _, err := r.journal.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: "v", ListBytes: 1}); err != nil && !errors.Is(err, journal.ErrFull) {
			r.t.Errorf("a write while the log stalls: %v", err)
		}
		r.flusher.Waits("ns")
		r.flusher.EntryWaits(id)
		r.flusher.Attempts(id)
		r.flusher.Paused("ns")
		r.flusher.TryNow("other")
		r.health.Report()
	}()
	select {
	case <-served:
	case <-giveUp:
		r.t.Error("a caller waits for the reader of the log")
	}
}
