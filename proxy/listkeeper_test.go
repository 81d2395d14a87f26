package proxy_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// listed counts, by namespace, the listings that upstream was asked for since the last call.
func (s *sidecar) listed() map[string]int {
	counts := make(map[string]int)
	for _, q := range s.upstream.take() {
		if q.ID.Key == "" {
			counts[q.ID.Namespace]++
		}
	}
	return counts
}

// A namespace is listed soon after its first use, and again while it is used, as a refresh.
func TestNamespacesInUseAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.run()
		time.Sleep(time.Hour)
		wantAsked(t, s)
		s.put(id("n", "k"), "v")
		time.Sleep(2 * time.Second)
		wantAsked(t, s, question{ID: id("n", "")})
		for range 60 {
			time.Sleep(10 * time.Second)
			wantStatus(t, s.get("/memory/n/k"), http.StatusOK)
		}
		if n := s.listed()["n"]; n < 18 || n > 20 {
			t.Errorf("listed %d times in 10 minutes of use", n)
		}
		time.Sleep(time.Hour)
		if n := s.listed()["n"]; n > 5 {
			t.Errorf("listed %d times in an hour without use", n)
		}
		wantStatus(t, s.get("/memory/n/k"), http.StatusOK)
		time.Sleep(2 * time.Second)
		if n := s.listed()["n"]; n != 1 {
			t.Errorf("listed %d times when it is used again", n)
		}
	})
}

// contract 9: a daemon that starts asks upstream for the first namespace that is used, however new the listing of it is: its
// copies answer, and the late window holds its writes, so it would not notice an outage before that.
func TestADaemonThatStartsAsksUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		wantStatus(t, s.put(id("n", "k"), "v"), http.StatusOK)
		wantStatus(t, s.get("/memory/n"), http.StatusOK)
		if n := s.listed()["n"]; n != 1 {
			t.Fatalf("listed %d times", n)
		}
		s.startServer()
		s.run()
		for range 2 {
			wantStatus(t, s.get("/memory/n/k"), http.StatusOK)
			time.Sleep(time.Second)
		}
		if n := s.listed()["n"]; n != 1 {
			t.Errorf("listed %d times after the start", n)
		}
	})
}

// Many namespaces are soon listed, and then with pauses, however many there are.
func TestListingsArePaced(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.run()
		use := func() {
			for i := range 300 {
				s.put(id(fmt.Sprint("n", i), "k"), "v")
			}
		}
		use()
		time.Sleep(2 * time.Second)
		if n := len(s.listed()); n != 300 {
			t.Errorf("%d of 300 namespaces are listed within 2 s", n)
		}
		for range 60 {
			time.Sleep(10 * time.Second)
			use()
		}
		total := 0
		for _, n := range s.listed() {
			total += n
		}
		if total < 250 || total > 310 {
			t.Errorf("%d listings in 10 minutes, want one in 2 s", total)
		}
	})
}

// If there are more namespaces than are remembered, the first ones are listed.
func TestNamespacesInUseAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.run()
		for i := range usedAtMost + 100 {
			s.put(id(fmt.Sprint("n", i), "k"), "v")
		}
		time.Sleep(time.Second)
		if n := len(s.listed()); n != usedAtMost {
			t.Errorf("%d namespaces are listed", n)
		}
		time.Sleep(time.Hour)
		s.put(id("late", "k"), "v")
		s.upstream.take()
		time.Sleep(time.Second)
		if n := s.listed()["late"]; n != 1 {
			t.Errorf("a namespace is listed %d times after others have fallen out of use", n)
		}
	})
}

// The daemon lists a namespace that was first used in an outage once the outage is over. A LIST that hangs does
// not delay other namespaces.
func TestListingsThatFail(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.run()
		s.upstream.setDown(true)
		s.put(id("n", "k"), "v")
		time.Sleep(time.Minute)
		if n := s.listed()["n"]; n < 3 || n > 6 {
			t.Errorf("tried %d times in a minute", n)
		}
		s.upstream.setDown(false)
		wantStatus(t, s.get("/memory/n/k"), http.StatusOK)
		time.Sleep(time.Minute)
		if n := s.listed()["n"]; n == 0 {
			t.Error("not listed when the outage is over")
		}
		held := s.upstream.hold()
		s.put(id("hangs", "k"), "v")
		<-held // for ever
		s.upstream.release()
		s.put(id("other", "k"), "v")
		time.Sleep(2 * time.Second)
		if n := s.listed()["other"]; n != 1 {
			t.Errorf("the other is listed %d times", n)
		}
	})
}

// prefetch: true keeps all values of a namespace here.
func TestPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
			o.Prefetch = func(namespace string) bool { return namespace == "n" }
		})
		s.run()
		for i := range 50 {
			s.upstream.set(id("n", fmt.Sprint(i)), fmt.Sprint("v", i))
			s.upstream.set(id("other", fmt.Sprint(i)), "v")
		}
		wantValue(t, s.get("/memory/n/0"), "v0")
		wantValue(t, s.get("/memory/other/0"), "v")
		time.Sleep(5 * time.Second)
		if n := len(s.upstream.take()); n > 54 {
			t.Errorf("upstream was asked %d times", n)
		}
		s.upstream.setDown(true)
		time.Sleep(time.Hour)
		for i := range 50 {
			wantValue(t, s.get(fmt.Sprint("/memory/n/", i)), fmt.Sprint("v", i))
		}
		wantStatus(t, s.get("/memory/n/50"), http.StatusNotFound)
		wantStatus(t, s.get("/memory/other/1"), http.StatusServiceUnavailable)

		s.upstream.setDown(false)
		s.upstream.set(id("n", "7"), "changed")
		s.upstream.set(id("n", "new"), "added")
		wantStatus(t, s.get("/memory/n/0"), http.StatusOK)
		time.Sleep(time.Minute + 5*time.Second) // the next listing, and its values
		s.upstream.setDown(true)
		time.Sleep(time.Hour)
		wantValue(t, s.get("/memory/n/7"), "changed")
		wantValue(t, s.get("/memory/n/new"), "added")
	})
}

// Values that upstream did not give in time are fetched with the next listing, a few at a time.
func TestPrefetchThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
			o.Prefetch = func(string) bool { return true }
		})
		for i := range 10 {
			s.upstream.set(id("n", fmt.Sprint(i)), "v")
		}
		questions := s.upstream.hold()
		s.run()
		s.put(id("n", "mine"), "v")
		listing := <-questions
		s.upstream.take()
		close(listing.answer)
		synctest.Wait()
		if n := len(s.upstream.take()); n != prefetchesAtOnce {
			t.Errorf("%d values are fetched at once, want %d", n, prefetchesAtOnce)
		}
		s.upstream.refuse(refused{status: http.StatusTooManyRequests})
		s.upstream.release()
		time.Sleep(5 * time.Second)
		s.upstream.refuse(nil)
		time.Sleep(time.Minute)
		s.upstream.setDown(true)
		for i := range 10 {
			wantValue(t, s.get(fmt.Sprint("/memory/n/", i)), "v")
		}
	})
}

// An entry that upstream refuses does not hold up those behind it.
func TestPrefetchGoesOnPastARefusedEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) { o.Prefetch = func(string) bool { return true } })
		s.upstream.sick = "sick"
		for i := range refusalsPassed {
			s.upstream.set(id("n", fmt.Sprint("sick-", i)), "v")
		}
		for i := range 10 {
			s.upstream.set(id("n", fmt.Sprint("well-", i)), "v")
		}
		s.run()
		s.put(id("n", "mine"), "v")
		time.Sleep(time.Second)
		s.upstream.setDown(true)
		for i := range 10 {
			wantValue(t, s.get(fmt.Sprint("/memory/n/well-", i)), "v")
		}
	})
}

// contract 16: throttled namespaces do not hold up the prefetch or listing of others.
func TestThrottledPrefetchesHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
			o.Prefetch = func(string) bool { return true }
		})
		s.run()
		var throttled []string
		for i := range listersAtOnce + prefetchesAtOnce {
			namespace := fmt.Sprint("throttled-", i)
			for key := range 10 {
				s.upstream.set(id(namespace, fmt.Sprint(key)), "v")
			}
			throttled = append(throttled, namespace)
		}
		s.upstream.set(id("well", "k"), "v")
		s.upstream.throttle("throttled-")
		for _, namespace := range throttled {
			s.put(id(namespace, "new"), "v")
		}
		time.Sleep(5 * time.Second)
		s.get("/memory/well/absent")
		time.Sleep(5 * time.Second)
		s.upstream.setDown(true)
		time.Sleep(time.Hour)
		wantValue(t, s.get("/memory/well/k"), "v")
	})
}
