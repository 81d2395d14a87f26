package flush_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// watched is a rig with a reader.
type watched struct {
	*rig
	reader *upstream.Reader
}

// watching runs a test on a flusher and a reader that share a health.
func watching(t *testing.T, test func(t *testing.T, w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{rig: newRig(t, newFake(t), vfs.NewMem())}
		w.reader = upstream.NewReader(upstream.ReaderOptions{
			Engine: w.client, Health: w.health, Slots: w.slots, Patience: patience, BackoffInitial: backoffInitial, BackoffMax: backoffMax,
		})
		test(t, w)
	})
}

// read asks upstream, and ignores the answer.
func (w *watched) read(k string) {
	_, _ = w.reader.Get(w.t.Context(), key(k), true)
	time.Sleep(time.Millisecond) // until the fake, too, has finished
}

func (w *watched) wantState(state upstream.State, reason string) {
	w.t.Helper()
	if got := w.health.Report(); got.State != state || got.Reason != reason {
		w.t.Errorf("upstream is %s (%s), want %s (%s)", got.State, got.Reason, state, reason)
	}
}

var timeOfLine = regexp.MustCompile(`time=\S+ `)

// wantLog checks the lines logged since the last call.
func (w *watched) wantLog(lines ...string) {
	w.t.Helper()
	got := timeOfLine.ReplaceAllString(w.log.take(), "")
	if diff := cmp.Diff(strings.Join(lines, ""), got); diff != "" {
		w.t.Errorf("the log (-want +got):\n%s", diff)
	}
}

const (
	downLine     = "level=WARN msg=\"upstream is down: reads are answered with what is known here, and writes wait in the journal\" reason="
	degradedLine = "level=INFO msg=\"upstream is degraded: some requests fail and are tried again\" reason="
	upLine       = "level=INFO msg=\"upstream is up again\" after="
)

// Contract 16: upstream is down if no request succeeds, even if callers ask for only one entry. If
// upstream itself says that it fails, it is degraded.
func TestOnePolledEntryShowsAnOutage(t *testing.T) {
	for name, row := range map[string]struct {
		answer func(call) reply
		state  upstream.State
		reason string
	}{
		"closes":      {func(call) reply { return reply{cut: true} }, upstream.Down, "upstream closed the connection without an answer"},
		"502":         {func(call) reply { return reply{status: 502, body: "<html>"} }, upstream.Down, "HTTP 502: an answer that is not BotWire's"},
		"portal":      {func(call) reply { return reply{status: 200, body: "<html>"} }, upstream.Down, "HTTP 200: an answer that is not BotWire's"},
		"hangs":       {func(call) reply { return reply{hang: true} }, upstream.Down, "no answer within 10s"},
		"500 its own": {func(call) reply { return detail(500) }, upstream.Degraded, "reads fail: HTTP 500: status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			watching(t, func(t *testing.T, w *watched) {
				w.read("k")
				w.wantState(upstream.Up, "")
				last := w.health.Report().LastSuccess
				w.set(func(f *fake) { f.answer = row.answer })
				began := time.Now()
				for range 3 {
					w.read("k")
				}
				w.wantState(row.state, row.reason)
				got := w.health.Report()
				if !got.Since.Equal(began) || got.LastSuccess != last || last.IsZero() {
					t.Errorf("since %v, last success %v, want %v, %v", got.Since, got.LastSuccess, began, last)
				}
				w.log.take()
				for range 100 {
					w.read("k")
				}
				w.wantLog()
				w.set(func(f *fake) { f.answer = nil })
				w.read("k")
				w.wantState(upstream.Up, "")
				if log := w.log.take(); !strings.Contains(log, upLine) || strings.Count(log, "\n") != 1 {
					t.Errorf("logged: %s", log)
				}
			})
		})
	}
}

// The log has one line when the state changes, one with the counts when upstream is back, and none in
// between.
func TestAnOutageIsTwoLinesOfTheLog(t *testing.T) {
	watching(t, func(t *testing.T, w *watched) {
		w.down = true
		for i := range 50 {
			w.put(journal.ID{Namespace: fmt.Sprint("ns", i%3), Key: fmt.Sprint(i)}, "v")
			w.read(fmt.Sprint(i))
		}
		const refused = "nobody listens (connection refused)"
		w.wantState(upstream.Down, refused)
		w.wantLog(downLine + "\"" + refused + "\"\n")
		time.Sleep(time.Hour)
		w.wantLog()
		w.set(func(f *fake) { f.down = false })
		w.settleWithin(time.Minute)
		w.wantState(upstream.Up, "")
		if log := w.log.take(); !regexp.MustCompile(`^time=\S+ level=INFO msg="upstream is up again" after=1h\S+\n$`).MatchString(log) {
			t.Errorf("logged: %s", log)
		}
	})
}

// A single failure followed by a success is not logged.
func TestABlipIsNotLogged(t *testing.T) {
	watching(t, func(t *testing.T, w *watched) {
		failures := 0
		w.answer = func(call) reply {
			if failures++; failures%3 != 0 {
				return reply{status: 502}
			}
			return reply{}
		}
		for range 20 {
			w.read("k")
			w.wantState(upstream.Up, "")
		}
		w.wantLog()
	})
}

// If reads fail and writes succeed, upstream is not down, and the state says what fails.
func TestOneKindOfRequestsFails(t *testing.T) {
	watching(t, func(t *testing.T, w *watched) {
		w.answer = func(c call) reply {
			if !c.write() {
				return reply{status: 503, body: "busy"}
			}
			return reply{}
		}
		const busy = "HTTP 503: an answer that is not BotWire's"
		for i := range 100 {
			w.put(key(fmt.Sprint("w", i)), "v")
			time.Sleep(time.Second)
			w.read(fmt.Sprint("r", i))
			if i > 0 {
				w.wantState(upstream.Degraded, "reads fail: "+busy)
			}
		}
		if log := w.log.take(); strings.Count(log, "\n") > 2 {
			t.Errorf("logged: %s", log)
		}
		w.set(func(f *fake) { f.answer = nil })
		w.put(key("last"), "v")
		time.Sleep(5 * time.Minute) // no reads
		w.wantState(upstream.Up, "")
	})
}

// Contract 16: a sick entry degrades upstream, even if others succeed, and the log has one line about
// it.
func TestASickEntryDegrades(t *testing.T) {
	watching(t, func(t *testing.T, w *watched) {
		w.answer = func(c call) reply {
			if c.id == key("sick") {
				return reply{status: 500, body: "oops"}
			}
			return reply{}
		}
		w.put(key("sick"), "v")
		time.Sleep(time.Second) // it has failed
		w.put(key("other"), "v")
		time.Sleep(10 * time.Second)
		w.log.take()
		for i := range 200 {
			w.put(key(fmt.Sprint(i)), "v")
			time.Sleep(3 * time.Second)
			if got := w.health.Report(); got.State != upstream.Degraded {
				t.Fatalf("%d: upstream is %s", i, got.State)
			}
		}
		w.wantLog()
		w.wantState(upstream.Degraded, "writes fail: those of ns/sick, and others do not: HTTP 500: an answer that is not BotWire's")
	})
}

// If writes go down while the reads of one entry fail, the reason is the outage's.
func TestTheReasonOfAnOutageIsNoEntrys(t *testing.T) {
	watching(t, func(t *testing.T, w *watched) {
		down := false
		w.answer = func(c call) reply {
			switch {
			case !c.write() && c.id == key("sick"):
				return reply{status: 500, body: "oops"}
			case down:
				return reply{status: 503, body: "busy"}
			}
			return reply{}
		}
		w.read("sick")
		w.read("well")
		w.read("sick")
		down = true
		for i := range 10 {
			w.put(key(fmt.Sprint("w", i)), "v")
			time.Sleep(3 * time.Second)
		}
		w.wantState(upstream.Down, "HTTP 503: an answer that is not BotWire's")
	})
}

// Each namespace with a sick entry is known by itself, with its own time, and whoever follows the state hears of each.
func TestSickNamespacesAreKnown(t *testing.T) {
	watching(t, func(t *testing.T, w *watched) {
		sick := map[string]bool{}
		var heard []string
		w.set(func(f *fake) {
			f.answer = func(c call) reply {
				if sick[c.id.Namespace] {
					return reply{status: 500, body: "oops"}
				}
				return reply{}
			}
		})
		w.onState = func(r upstream.Report) {
			heard = append(heard, fmt.Sprint(r.State, slices.Sorted(maps.Keys(r.Sick))))
		}
		became := map[string]time.Time{}
		wantSick := func(names ...string) {
			t.Helper()
			got := w.health.Report().Sick
			if diff := cmp.Diff(names, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Fatalf("sick (-want +got):\n%s", diff)
			}
			for name, since := range got {
				if off := since.Sub(became[name]); off < 0 || off > time.Second {
					t.Errorf("%s is sick since %v, want %v", name, since, became[name])
				}
			}
		}
		wait := func() {
			for i := range 20 {
				w.put(key(fmt.Sprint(i)), "v")
				time.Sleep(3 * time.Second)
			}
		}
		for _, name := range []string{"one", "two"} {
			w.set(func(*fake) { sick[name] = true })
			became[name] = time.Now()
			w.put(journal.ID{Namespace: name, Key: "k"}, "v")
			time.Sleep(time.Second) // it has failed
			wait()
		}
		wantSick("one", "two")
		w.set(func(*fake) { sick["two"] = false })
		wait()
		wantSick("one")
		w.set(func(*fake) { sick["one"] = false })
		wait()
		w.wantState(upstream.Up, "")
		// Before, while nobody else has succeeded, it is an outage.
		if diff := cmp.Diff([]string{"degraded[one]", "degraded[one two]", "degraded[one]", "up[]"}, heard[max(0, len(heard)-4):]); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
	})
}
