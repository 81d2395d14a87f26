package flush_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// The flusher says why a namespace waits, and until when. TryNow sends at once the writes that wait
// only for a time.
func TestWaitsSayWhyAndUntilWhen(t *testing.T) {
	hang := func(c call) reply { return reply{hang: c.value == "old"} }
	for name, row := range map[string]struct {
		answer func(call) reply
		down   bool
		why    string
		most   time.Duration // until then
		logged string
	}{
		"throttled":  {func(call) reply { return throttled("3000") }, false, "throttled: HTTP 429: slow down", 3000 * time.Second, "throttles"},
		"paused":     {func(call) reply { return detail(403) }, false, "paused: HTTP 403: status 403", backoffMax, "does not let"},
		"failing":    {func(call) reply { return detail(500) }, false, "failed: HTTP 500: status 500", backoffMax, ""},
		"down":       {nil, true, "upstream is down: ", probeMax, "upstream is down"},
		"unanswered": {hang, false, "unanswered: upstream may still carry out", lateWindow, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				if why, until := r.flusher.Waits("ns"); why != "" || !until.IsZero() {
					t.Errorf("a namespace that is not known waits because %q", why)
				}
				r.answer, r.down = row.answer, row.down
				r.put(key("k"), "old")
				if why, _ := r.flusher.Waits("ns"); why != "" {
					t.Errorf("while it lingers it waits because %q", why)
				}
				time.Sleep(time.Second)
				r.put(key("k"), "new")
				time.Sleep(3 * timeout / 2)
				for !r.waitsFor(row.why) {
					time.Sleep(10 * time.Millisecond)
				}
				why, until := r.flusher.Waits("ns")
				entry, entryUntil := r.flusher.EntryWaits(key("k"))
				if entry != why || !entryUntil.Round(time.Second).Equal(until.Round(time.Second)) || time.Until(until) <= 0 || time.Until(until) > row.most {
					t.Errorf("it waits for %v because %q, and its entry for %v because %q", time.Until(until), why, time.Until(entryUntil), entry)
				}
				if _, _, next := r.flusher.Attempts(key("k")); !next.Equal(entryUntil) {
					t.Errorf("its entry waits until %v, and is tried next at %v", entryUntil, next)
				}
				if row.logged != "" && r.log.lines(row.logged) != 1 {
					t.Errorf("%d lines say so in the log", r.log.lines(row.logged))
				}
				r.set(func(f *fake) { f.answer, f.down = nil, false })
				for _, namespace := range []string{"other", "ns", ""} {
					before := len(r.requests(anything))
					r.flusher.TryNow(namespace)
					time.Sleep(2 * r.latency)
					tried := len(r.requests(anything)) > before
					if want := namespace == "ns" && name != "unanswered"; tried != want && name != "down" {
						t.Errorf("TryNow(%q): tried: %v", namespace, tried)
					}
				}
				if n := r.pending(); n != 0 && name != "unanswered" {
					t.Errorf("%d are pending", n)
				}
			})
		})
	}
}

// waitsFor reports whether the namespace waits for something, not only for the moments that a test
// takes.
func (r *rig) waitsFor(why string) bool {
	got, until := r.flusher.Waits("ns")
	return strings.HasPrefix(got, why) && time.Until(until) > time.Second
}

// TryNow also ends the waits of entries that were not answered.
func TestTryNowOfManyEntries(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(call) reply { return detail(500) }
		for n := range 300 {
			r.put(journal.ID{Namespace: fmt.Sprint("ns", n), Key: "k"}, "v")
		}
		time.Sleep(10 * time.Minute)
		r.set(func(f *fake) { f.answer = nil })
		r.flusher.TryNow("")
		r.settleWithin(15 * time.Second) // a request that was in flight may still fail
	})
}
