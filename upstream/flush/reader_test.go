package flush_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/limit"
)

const patience = 5 * time.Second

func readers(t *testing.T, test func(t *testing.T, f *fake, r *upstream.Reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.entries[key("k")] = "v"
		health := upstream.NewHealth(upstream.HealthOptions{
			BackoffInitial: backoffInitial, BackoffMax: backoffMax, Logger: slog.New(slog.DiscardHandler),
		})
		test(t, f, upstream.NewReader(upstream.ReaderOptions{
			Engine: f.client(timeout), Health: health, Slots: limit.NewSlots(1000), Patience: patience, BackoffInitial: backoffInitial, BackoffMax: backoffMax,
		}))
	})
}

// Contract 9, with any backoffs.
func TestReadsWaitOutABlip(t *testing.T) {
	for range 50 {
		readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
			f.down = true
			time.AfterFunc(patience*3/4, func() { f.set(func(f *fake) { f.down = false }) })
			o, err := r.Get(t.Context(), key("k"), true)
			if err != nil || o == nil || o.Value != "v" {
				t.Errorf("got %v, %v", o, err)
			}
		})
	}
}

func TestReadsOfAnOutageAreAnsweredAtOnceLater(t *testing.T) {
	readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
		f.down = true
		for _, want := range []time.Duration{patience, 0, 0} {
			start := time.Now()
			_, err := r.Get(t.Context(), key("k"), true)
			var u *upstream.Unavailable
			if !errors.As(err, &u) || time.Since(start) != want {
				t.Errorf("%v after %v, want unavailable after %v", err, time.Since(start), want)
			}
		}
		start := time.Now()
		if _, _, err := r.List(t.Context(), "ns", false); err == nil || time.Since(start) != 0 {
			t.Errorf("a list: %v after %v", err, time.Since(start))
		}
	})
}

// TestOneReadAtATimeProbes: reads that were in flight when upstream went down end during a probe, and
// must not start a second one.
func TestOneReadAtATimeProbes(t *testing.T) {
	readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
		f.answer = func(call) reply { return reply{hang: true} }
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 300 * time.Millisecond)
				for ctx.Err() == nil {
					_, _ = r.Get(ctx, key(string(rune('a'+i))), false)
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		time.Sleep(2*timeout + 2*time.Second) // all of the first have ended
		f.set(func(f *fake) { f.peak = f.running })
		time.Sleep(10 * time.Minute)
		f.set(func(f *fake) {
			if f.peak != 1 {
				t.Errorf("%d reads at once while down, want one", f.peak)
			}
		})
		cancel()
		wg.Wait()
	})
}

func TestCallerWhoLeavesHandsTheProbeBack(t *testing.T) {
	readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
		f.down = true
		_, _ = r.Get(t.Context(), key("k"), false)
		f.set(func(f *fake) { f.down, f.answer = false, func(call) reply { return reply{hang: true} } })
		time.Sleep(backoffMax)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Get(ctx, key("k"), false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Millisecond) // until upstream notices that the caller has left
		f.set(func(f *fake) { f.answer = nil })
		if o, err := r.Get(t.Context(), key("k"), false); err != nil || o == nil {
			t.Errorf("got %v, %v, want the entry", o, err)
		}
	})
}

// TestRefusedReads: a caller gets upstream's own answer about the request, and no other. A 404 that is
// not about the entry would look like its absence (contract 9).
func TestRefusedReads(t *testing.T) {
	long := `{"detail":"` + strings.Repeat("x", 64<<10) + `"}`
	for name, row := range map[string]struct {
		rep      reply
		passedOn bool
		shown    bool // in the status
	}{
		"400":            {detail(400), true, false},
		"401":            {detail(401), true, true},
		"402":            {reply{status: 402, body: `{"x402Version":1}`}, true, true},
		"403":            {detail(403), true, true},
		"422":            {detail(422), true, false},
		"429":            {throttled("7"), true, false},
		"a page":         {reply{status: 403, body: "<html>"}, false, true},
		"nothing":        {reply{status: 403}, false, true},
		"a long one":     {reply{status: 403, body: long}, false, true},
		"404":            {detail(404), false, true},
		"410":            {detail(410), false, true},
		"500":            {detail(500), false, false},
		"a page for 400": {reply{status: 400, body: "<html>"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
				f.answer = func(call) reply { return row.rep }
				_, err := r.Get(t.Context(), key("k"), false)
				var said interface {
					RetryAfter() time.Duration
					Answer() (int, []byte)
				}
				if errors.As(err, &said) != row.passedOn {
					t.Fatalf("passed on: %t, want %t (%v)", !row.passedOn, row.passedOn, err)
				}
				if row.passedOn {
					status, body := said.Answer()
					if status != row.rep.status || string(body) != row.rep.body || (said.RetryAfter() == 7*time.Second) != (status == 429) {
						t.Errorf("%d %s after %v", status, body, said.RetryAfter())
					}
				}
				why := r.Refused()["ns"]
				if (why != "") != row.shown || row.shown && !strings.HasPrefix(why, fmt.Sprintf("HTTP %d: ", row.rep.status)) {
					t.Errorf("the status says %q", why)
				}
			})
		})
	}
}

// Reads that wait for a minute or longer are in the status, as long as they wait: copies answer meanwhile (contract 9).
func TestReadsThatWaitForLongAreInTheStatus(t *testing.T) {
	for wait, shown := range map[string]bool{"59": false, "60": true, "300": true} {
		readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
			f.answer = func(call) reply { return throttled(wait) }
			if _, err := r.Get(t.Context(), key("k"), false); err == nil {
				t.Fatal("it is not throttled")
			}
			seconds, _ := strconv.Atoi(wait)
			left := time.Duration(seconds) * time.Second
			for _, at := range []time.Duration{0, left - time.Second} {
				time.Sleep(at)
				why := r.Refused()["ns"]
				if isWhole := strings.HasPrefix(why, "HTTP 429: ") && strings.Contains(why, ", until "); (why != "") != shown || shown && !isWhole {
					t.Errorf("the reads wait for %s s: after %s the status says %q", wait, at, why)
				}
			}
			time.Sleep(time.Second)
			if why := r.Refused()["ns"]; why != "" {
				t.Errorf("the wait of %s s is over: the status says %q", wait, why)
			}
		})
	}
}

// The reader forgets refused reads when upstream answers one, and after a long time without reads.
func TestRefusedReadsAreForgotten(t *testing.T) {
	readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
		refuse := func(in string) {
			f.set(func(f *fake) { f.answer = func(call) reply { return detail(403) } })
			if _, _, err := r.List(t.Context(), in, true); err == nil || r.Refused()[in] == "" {
				t.Fatalf("%v, refused: %v", err, r.Refused())
			}
			f.set(func(f *fake) { f.answer = nil })
		}
		refuse("ns")
		refuse("other")
		if _, err := r.Get(t.Context(), key("k"), true); err != nil || len(r.Refused()) != 1 {
			t.Errorf("%v, refused: %v", err, r.Refused())
		}
		time.Sleep(time.Hour)
		if len(r.Refused()) != 0 {
			t.Errorf("an hour later: %v", r.Refused())
		}
	})
}

func TestReadThatFindsUpstreamBackNudgesTheFlusher(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.down = true
		r.put(key("k"), "v")
		time.Sleep(time.Hour)
		reader := upstream.NewReader(upstream.ReaderOptions{
			Engine: r.client, Health: r.health, Slots: r.slots, BackoffInitial: backoffInitial, BackoffMax: backoffMax,
		})
		if _, err := reader.Get(t.Context(), key("other"), true); err == nil {
			t.Error("an upstream that is down answers")
		}
		r.set(func(f *fake) { f.down = false })
		time.Sleep(2 * backoffInitial)
		_, _ = reader.Get(t.Context(), key("other"), true)
		time.Sleep(backoffInitial + 2*r.latency)
		r.wantHeld(key("k"), "v")
	})
}
