package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/limit"
)

// After an engine's error of an unknown type, the request may have been carried out.
func TestAnErrorOfNoKindIsUnanswered(t *testing.T) {
	if got := ErrorOf(errors.New("broken")); got.Verdict != Unanswered || got.Reason != "broken" {
		t.Errorf("got %+v", got)
	}
	throttled := &Error{Verdict: Throttled}
	if got := ErrorOf(fmt.Errorf("putting: %w", throttled)); got != throttled {
		t.Errorf("got %+v, want the engine's own", got)
	}
	if got := ErrorOf(nil); got != nil {
		t.Errorf("got %+v for no error", got)
	}
}

// contract 19: a host knows what it has written under its earlier names, and what a copy of its directory has.
func TestEarlierNames(t *testing.T) {
	earlier := Earlier{"first": 7, "second": 9}
	for w, want := range map[Writer]string{
		{"first", 0}: "now", {"first", 7}: "now", {"first", 8}: "first", {"second", 9}: "now", {"second", 10}: "second",
		{"now", 99}: "now", {"other", 1}: "other", {"", 0}: "",
	} {
		if got := earlier.Of(w, "now"); got != (Writer{want, w.Seq}) {
			t.Errorf("%+v is taken for %+v", w, got)
		}
	}
}

// unsteady is an engine whose reads are defined by the test.
type unsteady struct {
	Engine
	get func() (Version, error)
}

func (u *unsteady) Get(context.Context, journal.ID) (Version, error) { return u.get() }

// A read that panics while it probes releases its probe: the next one finds upstream healthy (contract
// 16).
func TestPanicDuringAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &unsteady{}
		r := NewReader(ReaderOptions{
			Engine: engine, Slots: limit.NewSlots(1), BackoffInitial: time.Second, BackoffMax: time.Minute,
			Health: NewHealth(HealthOptions{BackoffInitial: time.Second, BackoffMax: time.Minute, Logger: slog.New(slog.DiscardHandler)}),
		})
		read := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = errors.New("panicked")
				}
			}()
			_, err = r.Get(t.Context(), journal.ID{Namespace: "n", Key: "k"}, false)
			return err
		}
		engine.get = func() (Version, error) { return Version{}, &Error{Verdict: Unsent, Unreachable: true} }
		if read() == nil {
			t.Error("an upstream that is down answers")
		}
		time.Sleep(time.Hour)
		engine.get = func() (Version, error) { panic("broken") }
		if read() == nil {
			t.Error("a panic is no error")
		}
		time.Sleep(time.Hour)
		engine.get = func() (Version, error) { return Version{}, nil }
		if err := read(); err != nil {
			t.Errorf("upstream is well, and a read says %v", err)
		}
	})
}
