package identity_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/identity"
)

// opened returns a life without doubts.
func opened(t *testing.T) (*directory, *life) {
	t.Helper()
	d := newDirectory(t)
	l := d.open()
	l.wants(t, identity.New)
	return d, l
}

// After a stop of the machine or the process, or a change of the clock, callers get the doubt before
// they use a copy, whichever method they call first (contract 19).
func TestClocksAreComparedBeforeAnythingIsUsed(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*identity.Clocks)
		want    identity.Reason
	}{
		"a suspension, by the wall clock": {func(c *identity.Clocks) { c.Wall = c.Wall.Add(20 * time.Second) }, identity.ClockAhead},
		"a stop":                          {func(c *identity.Clocks) { c.Pass(20 * time.Second) }, identity.Stopped},
		"a clock that is set back":        {func(c *identity.Clocks) { c.Wall = c.Wall.Add(-time.Minute) }, identity.ClockBack},
		"a second":                        {func(c *identity.Clocks) { c.Pass(time.Second) }, ""},
		"a busy machine":                  {func(c *identity.Clocks) { c.Pass(4 * time.Second) }, ""},
		"a correction of the clock":       {func(c *identity.Clocks) { c.Wall = c.Wall.Add(500 * time.Millisecond) }, ""},
	} {
		for use, act := range map[string]func(*life, time.Time) bool{
			"stands":  func(l *life, confirmed time.Time) bool { return !l.Stands(confirmed) },
			"epoch":   func(l *life, _ time.Time) bool { return l.Epoch() != 0 },
			"check":   func(l *life, _ time.Time) bool { l.Check(); return l.fenced > 0 },
			"durably": func(l *life, _ time.Time) bool { l.CheckDurably(); return l.fenced > 0 },
			"tick":    func(l *life, _ time.Time) bool { l.Tick(); return l.fenced > 0 },
		} {
			t.Run(name+"/"+use, func(t *testing.T) {
				_, l := opened(t)
				confirmed := l.clocks.Wall
				c.happens(l.clocks)
				careful := c.want != ""
				if got := act(l, confirmed); got != careful {
					t.Errorf("it is noticed: %v", got)
				}
				st := l.State()
				if (st.Doubts[c.want] == 1) != careful || (st.Newest != nil) != careful || (l.fenced == 1) != careful {
					t.Errorf("%+v, fenced %d times", st, l.fenced)
				}
				if l.Stands(confirmed) == careful {
					t.Errorf("what was confirmed before stands: %v", !careful)
				}
				if now := l.clocks.Wall.Add(2 * time.Minute); !l.Stands(now) {
					t.Error("nothing stands any more")
				}
				if st := l.State(); len(st.Doubts) > 1 {
					t.Errorf("one occasion is several doubts: %+v", st.Doubts)
				}
			})
		}
	}
}

// The boot clock shows a suspension that the wall clock does not show.
func TestSuspensionByTheBootsClock(t *testing.T) {
	d := newDirectory(t)
	l := &life{clocks: &identity.Clocks{Wall: time.Now(), Mono: time.Minute, Boot: time.Hour}}
	l.Watch = identity.Open(d.options(&l.fenced).At(d.place, l.clocks))
	l.clocks.Pass(time.Second)
	l.Tick()
	l.clocks.Boot += 20 * time.Second
	l.clocks.Pass(time.Second)
	l.Tick()
	l.clocks.Pass(time.Second)
	l.Tick()
	if st := l.State(); st.Doubts[identity.Suspended] != 1 || l.fenced != 1 {
		t.Errorf("%+v, fenced %d times", st, l.fenced)
	}
}

// Readings every second find nothing, however much time passes, and however much a slow clock
// correction adds up to.
func TestTimePasses(t *testing.T) {
	_, l := opened(t)
	for range 10_000 {
		l.clocks.Pass(time.Second)
		l.clocks.Wall = l.clocks.Wall.Add(time.Millisecond)
		l.Tick()
		l.Check()
	}
	if st := l.State(); st.Newest != nil {
		t.Errorf("%+v", st)
	}
}

// The answer to a request in flight at a doubt may be as old as the doubt: it must not confirm a copy.
func TestRequestsUnderWayAtADoubt(t *testing.T) {
	_, l := opened(t)
	l.clocks.Pass(20 * time.Second)
	l.Check()
	for range 9 {
		l.clocks.Pass(time.Second)
		l.Tick()
	}
	answered := l.clocks.Wall
	if !l.Stands(answered) {
		t.Error("what is confirmed after the doubt does not stand")
	}
	l.clocks.Pass(time.Second)
	l.Tick()
	if l.Stands(answered) {
		t.Error("the answer to a request from before the doubt stands")
	}
	l.clocks.Pass(time.Second)
	l.Tick()
	if st := l.State(); !l.Stands(l.clocks.Wall) || l.fenced != 1 || st.Doubts[identity.Stopped] != 1 {
		t.Errorf("%+v, fenced %d times", st, l.fenced)
	}
}

// After a clock is set back by years, upstream is not asked for years.
func TestClockSetBackByYears(t *testing.T) {
	_, l := opened(t)
	confirmed := l.clocks.Wall
	l.clocks.Wall = l.clocks.Wall.Add(-30 * 24 * time.Hour)
	l.Check()
	if l.Stands(l.clocks.Wall.Add(-time.Second)) || !l.Stands(l.clocks.Wall.Add(time.Second)) || !l.Stands(confirmed) {
		t.Error("the barrier is not at the present time")
	}
}

// A barrier from before the clock was set back does not last until the clock has caught up.
func TestClockSetBackBehindABarrier(t *testing.T) {
	_, l := opened(t)
	l.clocks.Pass(20 * time.Second)
	l.Check() // a doubt, by the wrong clock
	l.clocks.Wall = l.clocks.Wall.Add(-30 * 24 * time.Hour)
	l.Check()
	if l.Stands(l.clocks.Wall.Add(-time.Second)) || !l.Stands(l.clocks.Wall.Add(time.Second)) {
		t.Error("the barrier is not at the present time")
	}
}

// If many callers come after a stop, none continues before the pending writes are fenced, and there is
// only one doubt.
func TestManyCallersAfterAStop(t *testing.T) {
	d := newDirectory(t)
	clocks := &identity.Clocks{Wall: time.Now(), Mono: time.Minute}
	var mu sync.Mutex
	fenced := 0
	opts := d.options(nil)
	opts.OnDoubt = func() {
		time.Sleep(20 * time.Millisecond) // others come meanwhile
		mu.Lock()
		defer mu.Unlock()
		fenced++
	}
	w := identity.Open(opts.At(d.place, clocks))
	clocks.Pass(20 * time.Second)
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			w.Check()
			mu.Lock()
			defer mu.Unlock()
			if fenced != 1 {
				t.Errorf("a caller goes on when %d doubts have been raised", fenced)
			}
		})
	}
	callers.Wait()
}

// When CheckDurably returns, a crash forgets no doubt.
func TestADoubtIsDurableBeforeAWriteIsSent(t *testing.T) {
	d, l := opened(t)
	before := l.clocks.Wall
	l.clocks.Pass(20 * time.Second)
	l.CheckDurably()
	next := d.open()
	if next.State().Start != identity.Same || next.fenced == 0 || next.Stands(before) {
		t.Errorf("the next life: %+v, fenced %d times", next.State(), next.fenced)
	}
}

// A crash forgets no doubt that could not be recorded either: the record of before does not stay.
func TestADoubtThatCannotBeRecorded(t *testing.T) {
	d, l := opened(t)
	d.used = true
	before := l.clocks.Wall
	inTheWay := filepath.Join(d.path, identity.FileName+".new", "full")
	no(t, os.MkdirAll(inTheWay, 0o700))
	l.clocks.Pass(20 * time.Second)
	l.CheckDurably()
	if next := d.open(); next.fenced == 0 || next.Stands(before) {
		t.Errorf("the next life: %+v, fenced %d times", next.State(), next.fenced)
	}
	no(t, os.RemoveAll(filepath.Dir(inTheWay)))
	l.Close(true)
	if next := d.open(); next.State().Start != identity.Same || next.fenced != 0 {
		t.Errorf("once there is room: %+v, fenced %d times", next.State(), next.fenced)
	}
}

// While the daemon runs, it notices once that the machine or the directory is another one. It keeps a
// file that somebody else wrote, for the next start.
func TestThePlaceChanges(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, d *directory){
		"another machine": func(_ *testing.T, d *directory) { d.machine = "other" },
		"another boot":    func(_ *testing.T, d *directory) { d.boot = "other" },
		"another directory": func(t *testing.T, d *directory) {
			d.copyTo(d.path + ".copy")
			no(t, os.Rename(d.path, d.path+".old"))
			no(t, os.Rename(d.path+".copy", d.path))
		},
		"another record": func(t *testing.T, d *directory) {
			other := newDirectory(t)
			other.open()
			text, err := os.ReadFile(filepath.Join(other.path, identity.FileName))
			no(t, err)
			no(t, os.WriteFile(filepath.Join(d.path, identity.FileName), text, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, l := opened(t)
			l.LookAround()
			if l.fenced != 0 {
				t.Errorf("nothing has happened: %+v", l.State().Newest)
			}
			change(t, d)
			l.LookAround()
			l.LookAround()
			l.Tick()
			if st := l.State(); st.Doubts[identity.Moved] != 1 || l.fenced != 1 {
				t.Errorf("%+v, fenced %d times", st, l.fenced)
			}
			l.Close(true)
			d.used = true
			if next := d.open(); next.State().Start == identity.Same && next.Stands(l.clocks.Wall) {
				t.Errorf("the next start: %+v", next.State())
			}
		})
	}
	d, l := opened(t)
	d.machine, d.boot = "", ""
	no(t, os.Remove(filepath.Join(d.path, identity.FileName)))
	if l.LookAround(); l.fenced != 0 {
		t.Errorf("what cannot be read is no doubt: %+v", l.State().Newest)
	}
}

// Run checks the clocks by itself, saves doubts, and ends with its context.
func TestRun(t *testing.T) {
	d := newDirectory(t)
	synctest.Test(t, func(t *testing.T) {
		clocks, doubts := &identity.Clocks{Wall: time.Now(), Mono: time.Minute}, make(chan time.Time, 10)
		opts := d.options(nil)
		opts.OnDoubt = func() { doubts <- time.Now() }
		w := identity.Open(opts.At(d.place, clocks))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond)
		clocks.Lock()
		clocks.Wall = clocks.Wall.Add(time.Minute)
		clocks.Unlock()
		if set := time.Now(); (<-doubts).Sub(set) != 500*time.Millisecond {
			t.Error("it is not noticed at the next look")
		}
		synctest.Wait()
		cancel()
		if err := <-ended; err == nil || len(doubts) != 0 {
			t.Errorf("Run ends with %v, and %d more doubts", err, len(doubts))
		}
	})
	if next := d.open(); next.fenced == 0 {
		t.Error("Run has not saved the doubt")
	}
}

// A check must be cheap: every read makes one.
func BenchmarkStands(b *testing.B) {
	fenced := 0
	w := identity.Open(identity.Options{
		Dir: b.TempDir(), Seq: func() uint64 { return 0 }, Unused: func() (bool, error) { return true, nil },
		OnDoubt: func() { fenced++ }, Logger: discard,
	})
	now := time.Now()
	for b.Loop() {
		if !w.Stands(now) {
			b.Fatal(fmt.Sprint(w.State()))
		}
	}
}
