package flush_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
)

// diary records what a rig announces, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// hooked is an engine that is asked what it knows before each request.
type hooked struct {
	upstream.Engine
	asked func()
}

func (h hooked) Known(id journal.ID) (upstream.Version, bool) {
	h.asked()
	return h.Engine.Known(id)
}

// announced makes a rig with a diary.
func announced(t *testing.T, beforeSend func(*rig)) (*rig, *diary) {
	d := &diary{}
	r := &rig{fake: newFake(t), t: t, fs: vfs.NewMem()}
	r.adjust = func(o *flush.Options) {
		o.OnSend = func(w journal.Write) { d.add("sent %d", w.Seq) }
		o.Engine = hooked{o.Engine, func() { beforeSend(r) }}
	}
	r.changed = func(c journal.Change) {
		if c.Written {
			d.add("pending %d", c.Seq)
		}
		if c.Ended.Seq != 0 {
			d.add("%s %d", c.Ended.State, c.Ended.Seq)
		}
	}
	return openRig(r), d
}

func wantDiary(t *testing.T, d *diary, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, d.take()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every request of a write is announced before it ends, unless a newer write has superseded it.
func TestSendingIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once := sync.OnceFunc(func() {})
		r, d := announced(t, func(r *rig) { once() })
		r.put(key("a"), "1")
		r.settleWithin(time.Second)
		wantDiary(t, d, "pending 1", "sent 1", "settled 1")

		// A newer write comes when the older one is about to be sent.
		once = sync.OnceFunc(func() { r.put(key("a"), "3") })
		r.put(key("a"), "2")
		r.settleWithin(2 * time.Second)
		wantDiary(t, d, "pending 2", "pending 3", "superseded 2", "sent 3", "settled 3")
		if sent := r.requests(anything); len(sent) != 3 {
			t.Errorf("%d requests, want 3", len(sent))
		}

		// A newer write that comes while the request is in flight does not retract the announcement.
		r.set(func(f *fake) { f.latency = time.Second })
		r.put(key("a"), "4")
		time.Sleep(linger + time.Second/2)
		r.put(key("a"), "5")
		r.settleWithin(time.Minute)
		wantDiary(t, d, "pending 4", "sent 4", "pending 5", "superseded 4", "sent 5", "settled 5")
	})
}

// Every attempt is announced.
func TestSendingAgainIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := announced(t, func(*rig) {})
		failures := 2
		r.set(func(f *fake) {
			f.answer = func(call) reply {
				if failures--; failures >= 0 {
					return detail(http.StatusInternalServerError)
				}
				return reply{}
			}
		})
		r.put(key("a"), "1")
		r.settleWithin(time.Minute)
		if got := strings.Join(d.take(), ", "); got != "pending 1, sent 1, sent 1, sent 1, settled 1" {
			t.Error(got)
		}
	})
}

// Each new state is announced once, with its reason and its beginning.
func TestStatesAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{fake: newFake(t), t: t, fs: vfs.NewMem()}
		var mu sync.Mutex
		var states []upstream.Report
		r.onState = func(report upstream.Report) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, report)
		}
		openRig(r)
		began := time.Now()
		r.set(func(f *fake) { f.down = true })
		r.put(key("a"), "1")
		r.put(key("b"), "1")
		time.Sleep(time.Minute)
		r.set(func(f *fake) { f.down = false })
		r.settleWithin(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(states) < 2 {
			t.Fatalf("announced: %+v", states)
		}
		for i, s := range states {
			if i > 0 && s.State == states[i-1].State || (s.State == upstream.Up) != (s.Reason == "") {
				t.Errorf("announced: %+v", states)
			}
		}
		worst, last := states[len(states)-2], states[len(states)-1]
		if worst.State != upstream.Down || worst.Since.Sub(began) > time.Second || last.State != upstream.Up || last.Since.Sub(began) < time.Minute {
			t.Errorf("announced: %+v", states)
		}
	})
}
