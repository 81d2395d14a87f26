package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/sse"
	"github.com/botwired/botwired/journal"
)

// told writes an event in one line, as a page would show it.
func told(t *testing.T, e sse.Event) string {
	t.Helper()
	switch e.Name {
	case eventUpstream:
		doc := read[api.UpstreamEvent](t, e)
		return fmt.Sprintf("upstream %s since %v: %s", doc.State, doc.Since, doc.Reason)
	case eventChanged:
		doc := read[api.ChangedEvent](t, e)
		return fmt.Sprintf("changed %s/%s", doc.Namespace, doc.Key)
	case eventReset:
		return "reset: " + read[api.ResetEvent](t, e).Reason
	}
	doc := read[api.WriteEvent](t, e)
	if now := float64(time.Now().Unix()); doc.At < now-60 || doc.At > now+1 {
		t.Errorf("%s was at %v, and now it is %v", e.Data, doc.At, now)
	}
	line := fmt.Sprintf("%s %d %s/%s %s %d", e.Name, doc.Seq, doc.Namespace, doc.Key, doc.Op, doc.Bytes)
	if doc.By != nil {
		line += fmt.Sprintf(" by %d", *doc.By)
	}
	if doc.Reason != "" {
		line += ": " + doc.Reason
	}
	return line
}

func wantTold(t *testing.T, a *audience, want ...string) (last string) {
	t.Helper()
	var got []string
	for _, e := range a.take() {
		got = append(got, told(t, e))
		last = e.ID
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	return last
}

// Every write ends once, and its events are in order.
func TestEventsOfWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := s.listen(s.listener(), "events")
		s.put(id("n", "settled"), "häl")
		first, _, err := s.journal.Newest(id("n", "settled"))
		noError(t, err)
		s.server.Sending(first)
		s.settle(id("n", "settled"))
		wantTold(t, a, "pending 1 n/settled put 4", "sent 1 n/settled put 4", "settled 1 n/settled put 4")

		s.put(id("n", "k"), "old")
		old, _, err := s.journal.Newest(id("n", "k"))
		noError(t, err)
		s.do("DELETE", "/memory/n/k", "")
		noError(t, s.journal.Settle(old)) // it was in flight, and has ended before
		wantTold(t, a, "pending 2 n/k put 3", "pending 3 n/k delete 0", "superseded 2 n/k put 3 by 3")
		s.settle(id("n", "k"))
		wantTold(t, a, "settled 3 n/k delete 0")

		for _, end := range []journal.Failure{
			{Kind: journal.Refused, Status: 413, Reason: "too big"},
			{Kind: journal.Dropped, Reason: "dropped by hand"},
		} {
			s.put(id("n", "dead"), "secret")
			w, _, err := s.journal.Newest(id("n", "dead"))
			noError(t, err)
			noError(t, s.journal.DeadLetter(w, end))
		}
		s.put(id("n", "dead"), "secret")
		lost, _, err := s.journal.Newest(id("n", "dead"))
		noError(t, err)
		noError(t, s.journal.Fence.LoseToDelete(lost, 1e10, "another host has written later"))
		wantTold(t, a, "pending 4 n/dead put 6", "dead 4 n/dead put 6: too big",
			"pending 5 n/dead put 6", "dropped 5 n/dead put 6: dropped by hand",
			"pending 6 n/dead put 6", "superseded 6 n/dead put 6: another host has written later")
	})
}

// Another host's changes are events once the view shows them, with or without a local copy. Own changes are
// not.
func TestEventsOfOtherHosts(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		all := s.listener()
		a, other := s.listen(all, "events"), s.listen(all, "events?namespace=other")
		s.upstream.set(id("n", "k"), "v")
		s.upstream.remove(id("n", "k"))
		s.upstream.swap(id("n", "own"), journal.Put, "v", s.upstream.tick(), 1)
		wantTold(t, a, "changed n/k", "changed n/k")
		wantTold(t, other)
	})
}

func TestEventsOfUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := s.listen(s.listener(), "events?namespace=n")
		s.server.UpstreamChanged(api.UpstreamState{State: "down", Since: time.Unix(7, 500_000_000), Reason: "refused"})
		wantTold(t, a, "upstream down since 7.5: refused")
	})
}

// A reader of one namespace resumes after the events of others.
func TestEventsOfOneNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		l := s.listener()
		a := s.listen(l, "events?namespace=mine")
		s.put(id("mine", "k"), "v")
		wantTold(t, a, "pending 1 mine/k put 1")
		for range eventsKept + 1 {
			s.put(id("other", "k"), "v")
			time.Sleep(streamPace)
		}
		time.Sleep(heartbeat)
		wantTold(t, a)
		b := s.listen(l, "events?namespace=mine", "Last-Event-ID", a.last())
		s.put(id("mine", "k"), "v2")
		w := fmt.Sprintf("%d", eventsKept+3)
		wantTold(t, b, "pending "+w+" mine/k put 2", "superseded 1 mine/k put 1 by "+w)
	})
}

func TestEventsResume(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		l := s.listener()
		a := s.listen(l, "events")
		begin := a.last()
		s.put(id("n", "a"), "v")
		s.put(id("n", "b"), "v")
		wantTold(t, a, "pending 1 n/a put 1", "pending 2 n/b put 1")
		wantTold(t, s.listen(l, "events", "Last-Event-ID", begin), "pending 1 n/a put 1", "pending 2 n/b put 1")
		wantTold(t, s.listen(l, "events?after="+begin), "pending 1 n/a put 1", "pending 2 n/b put 1")
		wantTold(t, s.listen(l, "events?after="+begin, "Last-Event-ID", a.last()))
		wantTold(t, s.listen(l, "events"))
		for _, foreign := range []string{"x", "other-1", begin + "x", "-", "1"} {
			b := s.listen(l, "events", "Last-Event-ID", foreign)
			wantTold(t, b, "reset: "+resetRestarted)
			if b.last() != a.last() {
				t.Errorf("after the reset it resumes after %q, want %q", b.last(), a.last())
			}
		}
	})
}

// Nothing is recorded while nobody listens. A reader that comes back within a minute has missed nothing. A
// later one reads everything again.
func TestEventsAreKeptForAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		l := s.listener()
		s.put(id("n", "before"), "v")
		a := s.listen(l, "events")
		wantTold(t, a)
		last := a.last()
		a.leave()
		synctest.Wait()
		s.put(id("n", "meanwhile"), "v")
		time.Sleep(eventsResume - time.Second)
		b := s.listen(l, "events?after="+last)
		wantTold(t, b, "pending 2 n/meanwhile put 1")
		last = b.last()
		b.leave()
		time.Sleep(eventsResume + time.Second)
		wantTold(t, s.listen(l, "events?after="+last), "reset: "+resetGone)
	})
}

// A reader that cannot follow reads everything again, at most once a second, and does not wait for the rest.
func TestMoreEventsThanAReaderTakes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := s.listen(s.listener(), "events")
		s.server.UpstreamChanged(api.UpstreamState{State: "up", Since: time.Unix(2, 0)})
		synctest.Wait() // the reader has reported that, and pauses
		for range 2 * eventsKept {
			s.server.UpstreamChanged(api.UpstreamState{State: "up"})
		}
		wantTold(t, a, "upstream up since 2: ", "reset: "+resetSlow)
		began := time.Now()
		for range 2 * eventsKept {
			s.server.UpstreamChanged(api.UpstreamState{State: "up"})
		}
		wantTold(t, a)
		time.Sleep(resetPause - time.Since(began))
		wantTold(t, a, "reset: "+resetSlow)
		s.server.UpstreamChanged(api.UpstreamState{State: "up", Since: time.Unix(1, 0)})
		time.Sleep(resetPause)
		wantTold(t, a, "upstream up since 1: ")
	})
}

// An earlier process's writes make no events.
func TestWhatTheJournalFindsIsNoEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := s.listen(s.listener(), "events")
		s.server.Changed(journal.Change{ID: id("n", "k"), Seq: 1, Written: true, Op: journal.Put, Bytes: 1, Found: true})
		wantTold(t, a)
	})
}

// contract: no event contains a value, whether its write settles, is superseded or is refused.
func TestEventsHoldNoValues(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := s.listen(s.listener(), "events")
		s.put(id("n", "k"), "geheim-1")
		s.put(id("n", "k"), "geheim-2")
		w, _, err := s.journal.Newest(id("n", "k"))
		noError(t, err)
		s.server.Sending(w)
		s.settle(id("n", "k"))
		events := a.take()
		for _, e := range events {
			if strings.Contains(string(e.Data), "geheim") {
				t.Errorf("%s: %s", e.Name, e.Data)
			}
		}
		if len(events) != 5 {
			t.Errorf("%d events, want 5", len(events))
		}
	})
}
