package flush_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/limit"
	"github.com/botwired/botwired/upstream/quota"
)

// says is an answer in BotWire's form.
func says(status int, sentence string) reply {
	return reply{status: status, body: fmt.Sprintf(`{"detail":%q}`, sentence)}
}

// A refusal for want of room is none of the write: it stays pending.
func TestARefusalForWantOfRoomMakesNoDeadLetter(t *testing.T) {
	for sentence, full := range map[string]bool{
		"Namespace storage limit exceeded (50MB).": true,
		"Storage quota exceeded":                   true,
		"Value too large. Max 100KB.":              false,
		"Request Entity Too Large":                 false,
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.answer = func(call) reply { return says(http.StatusRequestEntityTooLarge, sentence) }
			r.put(key("k"), "v")
			time.Sleep(time.Second)
			dead, pending := r.journal.Stats().DeadLetters, r.pending()
			if full != (dead == 0) || full != (pending == 1) || full != (r.flusher.Full("ns") != "") {
				t.Errorf("%q: %d dead letters, %d pending, full: %q", sentence, dead, pending, r.flusher.Full("ns"))
			}
		})
	}
}

// fillTo has upstream refuse each put with which its namespace "ns" would hold more entries than most.
func (r *rig) fillTo(most int, refusal reply) {
	r.answer = func(c call) reply {
		r.mu.Lock()
		defer r.mu.Unlock()
		held := 0
		for id := range r.entries {
			if id.Namespace == c.id.Namespace && id != c.id {
				held++
			}
		}
		if c.id.Namespace == "ns" && c.method == http.MethodPut && held >= most {
			return refusal
		}
		return reply{}
	}
}

func puts(c call) bool { return c.id.Namespace == "ns" && c.method == http.MethodPut }

var noRoom = says(http.StatusInsufficientStorage, "namespace ns is full")

// While a namespace is full, one of its puts is tried a minute, each time another one. Its deletes and other namespaces
// go on, and once there is room, the puts follow.
func TestOnlyThePutsOfAFullNamespaceWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fillTo(30, noRoom)
		for i := range 30 {
			r.put(key(fmt.Sprint("old", i)), "v")
		}
		r.settleWithin(time.Minute)
		r.putMany("ns", 50)
		time.Sleep(5 * time.Second)
		before := len(r.requests(puts))
		r.putMany("other", 50)
		time.Sleep(10 * time.Minute)
		if got := r.health.Report(); got.State != upstream.Up {
			t.Errorf("upstream is taken to be %s: %s", got.State, got.Reason)
		}
		if st := r.journal.Stats(); st.Namespaces["other"].Pending != 0 || st.Namespaces["ns"].Pending != 50 || st.DeadLetters != 0 {
			t.Errorf("pending: %+v, %d dead letters", st.Namespaces, st.DeadLetters)
		}
		tried := r.requests(puts)[before:]
		keys := make(map[string]bool)
		for _, c := range tried {
			keys[c.id.Key] = true
		}
		if len(tried) < 9 || len(tried) > 10 || len(keys) != len(tried) {
			t.Errorf("%d puts of %d entries were tried in 10 minutes", len(tried), len(keys))
		}
		why, until := r.flusher.Waits("ns")
		if full := r.flusher.Full("ns"); full != "HTTP 507: namespace ns is full" || why != "full: "+full || time.Until(until) > time.Minute || r.flusher.Paused("ns") != "" {
			t.Errorf("full: %q, waits: %q until %v, paused: %q", full, why, until, r.flusher.Paused("ns"))
		}
		if n := r.log.lines("upstream has no room for more in a namespace"); n != 1 {
			t.Errorf("%d lines in the log say that the namespace is full", n)
		}

		for i := range 20 {
			r.del(key(fmt.Sprint("old", i)))
		}
		r.within(linger+time.Second, "the deletes are upstream", func() bool { return r.journal.Stats().Pending == 50 })
		r.within(2*time.Minute, "puts follow", func() bool { return r.journal.Stats().Pending <= 30 })
		r.set(func(f *fake) { f.answer = nil })
		r.settleWithin(2 * time.Minute)
		if full := r.flusher.Full("ns"); full != "" {
			t.Errorf("with all settled: %q", full)
		}
	})
}

// Deletes of a full namespace go before its puts. This is also so for deletes that were pending before it was full, and
// for those that wait for a flush, for a caller or after a failure. A put that becomes a delete goes, and a delete that
// becomes a put waits.
func TestDeletesOfAFullNamespaceGoFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var away atomic.Bool
		r.answer = func(c call) reply {
			switch {
			case away.Load():
				return reply{status: http.StatusServiceUnavailable}
			case puts(c):
				return noRoom
			}
			return reply{}
		}
		r.put(key("first"), "v")
		r.within(time.Second, "the namespace is full", func() bool { return r.flusher.Full("ns") != "" })
		away.Store(true)
		for i := range 20 {
			r.put(key(fmt.Sprint("put", i)), "v")
			r.del(key(fmt.Sprint("del", i)))
		}
		r.put(key("turns"), "v")
		r.del(key("turns"))
		r.del(key("returns"))
		r.put(key("returns"), "v")
		time.Sleep(90 * time.Second) // some of them fail, and a put is due
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, _, _ = r.flusher.Flush(ctx, "ns") // all are urgent now
		writes := func(c call) bool { return c.id.Namespace == "ns" && c.write() }
		before := len(r.requests(writes))
		away.Store(false)
		r.within(30*time.Second, "all deletes are upstream", func() bool { return r.pending() == 22 })
		if first := r.requests(writes)[before]; first.method != http.MethodDelete {
			t.Errorf("the first request is a %s", first.method)
		}
		if why, _ := r.flusher.EntryWaits(key("returns")); !strings.HasPrefix(why, "full: ") {
			t.Errorf("the put after a delete waits for %q", why)
		}
		tried := len(r.requests(puts))
		r.flusher.TryNow("ns")
		time.Sleep(time.Second)
		if n := len(r.requests(puts)) - tried; n != 1 {
			t.Errorf("%d puts were tried at once on demand, want 1", n)
		}
		r.set(func(f *fake) { f.answer = nil })
		r.settleWithin(2 * time.Minute)
		for i := range 20 {
			r.wantHeld(key(fmt.Sprint("put", i)), "v")
		}
		r.wantHeld(key("returns"), "v")
	})
}

// The delete of the very entry whose put upstream had no room for waits for nothing.
func TestADeleteOfWhatHadNoRoomGoes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fillTo(0, noRoom)
		for i := range 3 {
			r.put(key(fmt.Sprint(i)), "v")
		}
		time.Sleep(time.Second)
		if full := r.flusher.Full("ns"); full == "" || r.pending() != 3 {
			t.Fatalf("full: %q, %d pending", full, r.pending())
		}
		for i := range 3 {
			r.del(key(fmt.Sprint(i)))
		}
		r.settleWithin(linger + time.Second)
	})
}

// A put that is due gives way to a delete, also where the namespace was throttled meanwhile.
func TestADeleteGoesBeforeThePutThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRig(&rig{fake: newFake(t), t: t, fs: vfs.NewMem(), adjust: func(o *flush.Options) { o.Slots = limit.NewSlots(1) }})
		limited := true
		r.answer = func(c call) reply {
			switch {
			case puts(c):
				return noRoom
			case limited:
				limited = false
				return throttled("300")
			}
			return reply{}
		}
		r.put(key("put"), "v")
		time.Sleep(time.Second)
		r.del(key("first"))
		time.Sleep(2 * time.Minute) // the put is due
		r.del(key("second"))
		before := len(r.requests(call.write))
		time.Sleep(4 * time.Minute)
		var sent []string
		for _, c := range r.requests(call.write)[before:] {
			sent = append(sent, c.method+" "+c.id.Key)
		}
		if len(sent) < 3 || !slices.Equal(sent[:3], []string{"DELETE first", "DELETE second", "PUT put"}) {
			t.Errorf("sent: %v", sent)
		}
	})
}

// Whoever waits for a put of a full namespace hears at once that it waits, and how long. Whoever waits for a delete gets
// it.
func TestAWriteThroughInAFullNamespace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if puts(c) {
				return says(http.StatusRequestEntityTooLarge, "Storage quota exceeded")
			}
			return reply{}
		}
		for _, what := range []string{"the first, which finds it full", "the second"} {
			w := r.put(key(what[4:7]), "v")
			began := time.Now()
			_, err := r.flusher.Confirm(t.Context(), w.ID, w.Seq, false)
			u, ok := errors.AsType[*flush.Unconfirmed](err)
			if !ok || !strings.Contains(err.Error(), "full: HTTP 413: Storage quota exceeded") || u.RetryAfter() <= 50*time.Second || u.RetryAfter() > time.Minute {
				t.Errorf("%s: %v, again in %v", what, err, u.RetryAfter())
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: it took %v", what, took)
			}
		}
		w := r.del(key("old"))
		if settled, err := r.flusher.Confirm(t.Context(), w.ID, w.Seq, false); !settled || err != nil {
			t.Errorf("the delete: %t, %v", settled, err)
		}
	})
}

// The puts that are tried keep to the quota, and to a longer wait that upstream asks for.
func TestAFullNamespaceKeepsToItsQuota(t *testing.T) {
	metered(t, quota.Limit{Writes: 100, Period: day, MaxAge: 15 * time.Minute}, func(t *testing.T, r *rig, _ *meter) {
		r.set(func(f *fake) {
			f.answer = func(c call) reply {
				if puts(c) {
					return noRoom
				}
				return reply{}
			}
		})
		r.putMany("ns", 30)
		time.Sleep(12 * time.Hour)
		if n := len(r.requests(puts)); n > 60 || n < 40 {
			t.Errorf("%d of 100 puts were tried in half a day", n)
		}
		r.del(key("old"))
		time.Sleep(linger + time.Second)
		if n := r.pending(); n != 30 {
			t.Errorf("the delete waits: %d pending", n)
		}
	})
	bubble(t, func(t *testing.T, r *rig) {
		later := noRoom
		later.header = http.Header{"Retry-After": {"600"}}
		r.answer = func(call) reply { return later }
		r.put(key("k"), "v")
		time.Sleep(59 * time.Minute)
		if n := len(r.requests(puts)); n != 6 {
			t.Errorf("%d puts in an hour, want 6", n)
		}
	})
}

// A restart forgets that a namespace is full: the first put that upstream refuses shows it again.
func TestAFullNamespaceAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if puts(c) {
				return noRoom
			}
			return reply{}
		}
		r.put(key("k"), "v")
		time.Sleep(time.Second)
		r = r.reopen()
		if full := r.flusher.Full("ns"); full != "" {
			t.Errorf("before a request: %q", full)
		}
		before := len(r.requests(puts))
		time.Sleep(time.Minute)
		if n := len(r.requests(puts)) - before; n != 1 || r.flusher.Full("ns") == "" {
			t.Errorf("%d puts were tried in a minute; full: %q", n, r.flusher.Full("ns"))
		}
		w := r.del(key("k")) // nothing waits any more
		r.settleWithin(linger + time.Second)
		if _, dead, _ := r.journal.IsDead(w.ID, w.Seq); dead || r.flusher.Full("ns") != "" {
			t.Errorf("after a delete: dead %t, full: %q", dead, r.flusher.Full("ns"))
		}
		synctest.Wait()
	})
}

// A 507 about upstream's own disk, or for a request that stores nothing, is a failure of upstream.
func TestAFullUpstreamIsUnwell(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(call) reply {
			return says(http.StatusInsufficientStorage, "The disk is full; nothing was changed.")
		}
		r.put(key("k"), "v")
		time.Sleep(10 * time.Second)
		if got := r.health.Report(); got.State == upstream.Up {
			t.Error("upstream is taken to be up")
		}
		if full := r.flusher.Full("ns"); full != "" {
			t.Errorf("the namespace is taken to be full: %q", full)
		}
	})
}
