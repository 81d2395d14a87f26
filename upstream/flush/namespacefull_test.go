package flush_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// says is an answer in BotWire's form.
func says(status int, sentence string) reply {
	return reply{status: status, body: fmt.Sprintf(`{"detail":%q}`, sentence)}
}

// If upstream refuses a write with 413 because its namespace is full, the write becomes a dead letter.
// OnNamespaceFull is called when the write no longer counts.
func TestARefusalForAFullNamespaceIsPassedOn(t *testing.T) {
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
			if n := r.journal.Stats().DeadLetters; n != 1 {
				t.Errorf("%q: %d dead letters, want 1", sentence, n)
			}
			want := []string(nil)
			if full {
				want = []string{"ns: 1 dead, 0 pending"}
			}
			if got := r.calledFull(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q: the sizes were told %v, want %v", sentence, got, want)
			}
		})
	}
}

// A 507 about the namespace pauses only the namespace: upstream is healthy. Its writes stay, and a
// delete is tried first, because it makes room.
func TestAFullNamespaceWaitsAndHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if c.id.Namespace == "ns" && c.method == http.MethodPut {
				return says(http.StatusInsufficientStorage, "namespace ns is full")
			}
			return reply{}
		}
		r.putMany("ns", 50)
		r.putMany("other", 50)
		time.Sleep(5 * time.Second)
		if got := r.health.Report(); got.State != upstream.Up {
			t.Errorf("upstream is taken to be %s: %s", got.State, got.Reason)
		}
		if n := r.journal.Stats().Namespaces["other"].Pending; n != 0 {
			t.Errorf("%d writes of another namespace are pending", n)
		}
		if got := r.flusher.Paused("ns"); got != "HTTP 507: namespace ns is full" {
			t.Errorf("paused: %q", got)
		}
		if got := r.journal.Stats(); got.Namespaces["ns"].Pending != 50 || got.DeadLetters != 0 {
			t.Errorf("%d writes are pending and %d dead", got.Namespaces["ns"].Pending, got.DeadLetters)
		}
		if len(r.calledFull()) == 0 {
			t.Error("the sizes were not told")
		}
		r.del(journal.ID{Namespace: "ns", Key: "old"})
		time.Sleep(backoffMax)
		deletes := r.requests(func(c call) bool { return c.method == http.MethodDelete })
		if len(deletes) != 1 {
			t.Errorf("%d deletes were sent by the next attempt, want 1", len(deletes))
		}
		r.set(func(f *fake) { f.answer = nil })
		r.settleWithin(2 * backoffMax)
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
		if got := r.calledFull(); got != nil {
			t.Errorf("the sizes were told %v", got)
		}
	})
}

// calledFull returns the calls of OnNamespaceFull.
func (r *rig) calledFull() (calls []string) {
	for len(r.full) > 0 {
		calls = append(calls, <-r.full)
	}
	return calls
}
