package day

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/proof/machine"
)

var (
	agentsFlag = flag.Int("day.agents", 20, "how many agents there are")
	hoursFlag  = flag.Int("day.hours", 2, "how many hours the day has; 24 must be a multiple")
	seedFlag   = flag.Uint64("day.seed", 8, "which agents they are: of the first 20 of 8, one needs more than its quota")
	dirFlag    = flag.String("day.dir", "", "folder for the daemon's data, on the disk to measure; without it, a temporary one")
	writeFlag  = flag.Bool("day.write", false, "write the table into README.md, and more into docs/performance.md")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dailyWrites is BotWire's quota. A shorter day has as much less.
const dailyWrites = 1000

// options say which day it is.
type options struct {
	agents int
	day    time.Duration
	seed   uint64
}

func (o options) quota() int { return dailyWrites * int(o.day) / int(24*time.Hour) }

// agentsOf are the same agents for the same options.
func (o options) agentsOf(own func() memory) []*agent {
	all := make([]*agent, o.agents)
	for i := range all {
		all[i] = newAgent(o.seed, i)
		all[i].memory = own()
	}
	return all
}

// live has all agents live their day, and returns the sum of their tallies.
func live(agents []*agent, day time.Duration) (sum tally, err error) {
	var lives errgroup.Group
	as(partAgents, func() {
		for _, a := range agents {
			lives.Go(func() error { return a.live(day) })
		}
		err = lives.Wait()
	})
	for _, a := range agents {
		sum.reads += a.tally.reads
		sum.writes += a.tally.writes
		sum.failed += a.tally.failed
		sum.waited += a.tally.waited
		sum.far += a.tally.far
	}
	return sum, err
}

// lived is a day's outcome.
type lived struct {
	tally
	up counts // within the day
	// The rest is about a day with a daemon.
	pending int           // at the day's end
	oldest  time.Duration // of those, its age
	late    int           // writes upstream on the next day, for those
	usage                 // of all parts, with the hours after the day
	shares  map[string]float64
	real    time.Duration // that the simulation took
}

// Nothing is lost on a day, directly or with a daemon, but what the quota refuses: and it refuses the
// daemon nothing. Each read is answered with the agent's last write.
func TestDay(t *testing.T) {
	o := options{*agentsFlag, time.Duration(*hoursFlag) * time.Hour, *seedFlag}
	dir := dataDir(t)
	here := machine.This(t.Context(), dir)
	direct, through := liveDirectly(t, o), liveThrough(t, o, dir)
	if t.Failed() {
		return
	}
	if direct.reads != through.reads || direct.writes != through.writes {
		t.Errorf("the agents made %d reads and %d writes directly, and %d and %d with a daemon", direct.reads, direct.writes, through.reads, through.writes)
	}
	if through.failed > 0 || through.up.refused > 0 || through.up.most > o.quota() {
		t.Errorf("with a daemon, %d writes failed, upstream refused %d, and took %d of a namespace", through.failed, through.up.refused, through.up.most)
	}
	if through.up.writes >= direct.up.writes || through.waited >= direct.waited {
		t.Errorf("the daemon saved nothing: %d writes upstream and %s of waiting, and directly %d and %s",
			through.up.writes, through.waited, direct.up.writes, direct.waited)
	}
	r := &report{options: o, direct: direct, through: through, machine: here}
	var err error
	if r.sockets, err = measureSockets("."); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s\n%s", r.table(), r.account())
	if *writeFlag {
		if err := r.write(); err != nil {
			t.Error(err)
		}
	}
}

// The same seed makes the same day, and another seed another one.
func TestADayIsReproducible(t *testing.T) {
	requests := func(seed uint64) tally {
		l := liveDirectly(t, options{10, 2 * time.Hour, seed})
		return l.tally
	}
	first := requests(1)
	first.waited = 0
	again := requests(1)
	again.waited = 0
	if diff := cmp.Diff(first, again, cmp.AllowUnexported(tally{})); diff != "" {
		t.Error(diff)
	}
	if other := requests(2); other.reads == first.reads && other.writes == first.writes {
		t.Errorf("two seeds make %+v", other)
	}
}

func liveDirectly(t *testing.T, o options) (l lived) {
	synctest.Test(t, func(t *testing.T) {
		up := newService(o.quota(), o.day)
		agents := o.agentsOf(func() memory { return up })
		var err error
		if l.tally, err = live(agents, o.day); err != nil {
			t.Error(err)
		}
		if difference := up.differs(agents); difference != "" {
			t.Error(difference)
		}
		l.up = up.counts()
	})
	return l
}

// dataDir is where the daemon has its data.
func dataDir(t *testing.T) string {
	t.Helper()
	if *dirFlag == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(*dirFlag, "day-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// liveThrough measures the whole of a day with a daemon from outside of its bubble, where time is real.
func liveThrough(t *testing.T, o options, dir string) (l lived) {
	before, err := usageNow(dir)
	if err != nil {
		t.Fatal(err)
	}
	var profile bytes.Buffer
	began := time.Now()
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := l.liveInBubble(o, dir); err != nil {
			t.Error(err)
		}
	})
	pprof.StopCPUProfile()
	l.real = time.Since(began)
	after, err := usageNow(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.usage = usage{after.cpu - before.cpu, after.written - before.written, after.device - before.device}
	if l.shares, err = shares(profile.Bytes()); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lived) liveInBubble(o options, dir string) (err error) {
	begin, log := time.Now(), &lines{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nthe log: %s", err, log.text.String())
		}
	}()
	up := newService(o.quota(), o.day)
	as(partUpstream, up.listen)
	var d *daemon
	as(partDaemon, func() {
		d, err = openDaemon(dir, up, slog.New(slog.NewTextHandler(log, nil)))
		if err == nil {
			d.start()
		}
	})
	if err != nil {
		return errors.Join(err, up.close())
	}
	defer func() { err = errors.Join(err, d.end(), up.close()) }()
	agents := o.agentsOf(func() memory { return &caller{daemon: d} })
	if l.tally, err = live(agents, o.day); err != nil {
		return err
	}
	time.Sleep(time.Until(begin.Add(o.day - time.Millisecond)))
	l.up = up.counts()
	st := d.journal.Stats()
	if l.pending = st.Pending; st.Pending > 0 {
		l.oldest = time.Since(time.UnixMicro(int64(st.OldestSince * 1e6)))
	}
	return l.settle(o, d, up, agents)
}

// settle waits for the writes that are pending at the day's end, and expects each agent's last value
// upstream then.
func (l *lived) settle(o options, d *daemon, up *service, agents []*agent) error {
	for end := time.Now().Add(o.day); d.journal.Stats().Pending > 0; time.Sleep(time.Minute) {
		if time.Now().After(end) {
			return fmt.Errorf("%d writes are pending a day later", d.journal.Stats().Pending)
		}
	}
	all := up.counts()
	l.late = all.writes - l.up.writes
	l.up.refused, l.up.most = all.refused, all.most
	if st := d.journal.Stats(); st.DeadLetters > 0 || st.Conflicts > 0 {
		return fmt.Errorf("%d writes are dead letters, and %d have lost a conflict", st.DeadLetters, st.Conflicts)
	}
	if difference := up.differs(agents); difference != "" {
		return errors.New(difference)
	}
	return nil
}
