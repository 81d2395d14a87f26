package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/botwired/botwired/proof/load"
)

// many is the number of connections of callers who come all at once.
const many = 64

// putSettled is a write with all that comes after its acknowledgement.
const putSettled = "PUT, until upstream has it"

// featureLoads are the loads on the daemons. The last one begins on new daemons.
var featureLoads = []struct {
	name        string
	connections int
}{{getHit, 1}, {getHit, many}, {putSettled, many}, {putDistinct, many}}

// trial has what all pairs of daemons share.
type trial struct {
	lab       *lab
	settings  *featuresSettings
	near, far *server // upstreams
	collector *collector
}

// openTrial starts the upstreams. The near one has the entries to read.
func openTrial(ctx context.Context, l *lab, s *featuresSettings) (t *trial, err error) {
	t = &trial{lab: l, settings: s}
	if t.near, err = l.start(ctx, l.sink("", 0)); err != nil {
		return nil, err
	}
	if t.far, err = l.start(ctx, l.sink("", s.Latency)); err != nil {
		return nil, err
	}
	each := func(dst []byte, connection, n int) []byte { return append(dst, entryPath(connection+n*fillers)...) }
	if err := fill(ctx, t.near.address, load.HTTPAnswer, entries, httpPuts(t.near.address, each)); err != nil {
		return nil, fmt.Errorf("filling: %w", err)
	}
	t.collector, err = openCollector(ctx)
	return t, err
}

func (t *trial) close() error { return t.collector.close() }

// measureFeatures measures the features whose names match, and the daemon beside itself always.
func (t *trial) measureFeatures(ctx context.Context, only *regexp.Regexp) (rows []*featureRow, err error) {
	p := newProgress(os.Stderr)
	defer p.end()
	for i, f := range allFeatures(t.settings.Receipts) {
		if i > 0 && !only.MatchString(f.name) {
			continue
		}
		mine := newFeatureRows(&f)
		for round := range t.settings.Rounds {
			p.show("%s: round %d/%d", f.name, round+1, t.settings.Rounds)
			if err := t.round(ctx, &f, round, mine); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
		}
		rows = append(rows, mine...)
	}
	return rows, nil
}

// round measures a feature once with each load. It measures durable writes in front of an upstream
// far away, as they come faster than anybody flushes, and all else in front of one that is near.
func (t *trial) round(ctx context.Context, f *feature, round int, rows []*featureRow) error {
	last := len(featureLoads) - 1
	if err := t.withPair(ctx, f, t.near, func(p *pair) error {
		if err := p.learn(); err != nil {
			return err
		}
		for _, row := range rows[:last] {
			measure := p.compare
			if row.Load == getHit {
				measure = p.hitting
			}
			if err := measure(round, row); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return t.withPair(ctx, f, t.far, func(p *pair) error { return p.compare(round, rows[last]) })
}

// pair is two daemons that live side by side.
type pair struct {
	ctx     context.Context // of the measurement
	trial   *trial
	feature *feature
	daemons [2]*server // by variant
	runs    int        // loads so far: each writes keys of its own
	events  int64      // bytes of events that have come
}

// withPair starts a pair, has it measured, checks that the feature was at work, and ends the pair.
func (t *trial) withPair(ctx context.Context, f *feature, upstream *server, measure func(*pair) error) (err error) {
	p := &pair{ctx: ctx, trial: t, feature: f}
	for v := range p.daemons {
		c := t.lab.botwired(upstream.address, f.settings[v]...)
		if variant(v) == with && f.env != nil {
			c.env = f.env(t)
		}
		if p.daemons[v], err = t.lab.start(ctx, c); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.daemons[v].remove()) }()
	}
	if f.fill != nil {
		if err := f.fill(p); err != nil {
			return fmt.Errorf("filling: %w", err)
		}
	}
	if err := measure(p); err != nil || f.check == nil {
		return err
	}
	return f.check(p)
}

const (
	// learnsTimes is how often a daemon may have to be asked: it answers 503 while it takes upstream
	// for unwell, as it may on a busy machine.
	learnsTimes = 5
	// learnsAgain is the pause before it is asked again, the Retry-After of a 503.
	learnsAgain = time.Second
)

// learn makes both daemons read all entries.
func (p *pair) learn() error {
	for _, daemon := range p.daemons {
		gets := func(dst []byte, connection, n int) []byte {
			return append(dst, get(daemon.address, "/memory/"+entryPath(connection+n*fillers))...)
		}
		err := fill(p.ctx, daemon.address, load.HTTPAnswer, entries, gets)
		for again := 1; err != nil && again < learnsTimes; again++ {
			if err := sleep(p.ctx, learnsAgain); err != nil {
				return err
			}
			err = fill(p.ctx, daemon.address, load.HTTPAnswer, entries, gets)
		}
		if err != nil {
			return fmt.Errorf("learning: %w", err)
		}
	}
	return nil
}

// compare measures the daemons in turns, while a client uses the feature. Of four turns, the daemon that
// begins also ends, and the other one begins the next four.
//
// Reads have many short turns: the machine is faster at some times than at others, and a turn is shorter
// than such a time. Writes have two long ones: in short ones, a daemon would do its work in the background
// while the other one is measured.
func (p *pair) compare(round int, row *featureRow) (err error) {
	if p.feature.use != nil {
		u, useErr := p.feature.use(p)
		if useErr != nil {
			return useErr
		}
		defer func() { err = errors.Join(err, u.stop()) }()
	}
	s := p.trial.settings
	turns, lasts := s.Turns, s.For
	if row.Load != getHit {
		turns, lasts = 2, s.For*time.Duration(s.Turns)/2
	}
	var sums [2]turnSum
	for done := 0; done < turns; done += 2 {
		first := variant((round + done/2) % len(p.daemons))
		for _, v := range []variant{first, 1 - first, 1 - first, first} {
			if err := p.turn(p.daemons[v], row, lasts, &sums[v]); err != nil {
				return fmt.Errorf("%s, %d connections, %s: %w", row.Load, row.Connections, p.feature.variants[v], err)
			}
		}
	}
	row.Rounds = append(row.Rounds, featureRound{Without: sums[without].figures(), With: sums[with].figures()})
	return nil
}

// turn measures one daemon under a load.
func (p *pair) turn(daemon *server, row *featureRow, lasts time.Duration, sum *turnSum) error {
	switch row.Load {
	case getHit:
		return p.lasting(daemon, row.Connections, getEntries(daemon.address), lasts, sum)
	case putSettled:
		return p.settling(daemon, row.Connections, sum)
	}
	return p.lasting(daemon, row.Connections, httpPuts(daemon.address, p.distinct), lasts, sum)
}

// hitting measures reads, and fails if a daemon asked upstream for one.
func (p *pair) hitting(round int, row *featureRow) error {
	var checks []*subject
	for _, daemon := range p.daemons {
		on, err := answeredHere(p.ctx, ofHTTP(daemon, nil))
		if err != nil {
			return err
		}
		checks = append(checks, on)
	}
	err := p.compare(round, row)
	for _, on := range checks {
		err = errors.Join(err, on.done(p.ctx))
	}
	return err
}

// distinct names an entry for each request of the pair, of a thousand agents.
func (p *pair) distinct(dst []byte, connection, n int) []byte {
	return fmt.Appendf(dst, "agent-%d/run-%d-%d-%d", (connection*31+n)%1000, p.runs, connection, n)
}

// lasting measures a load that lasts for some time, after it has warmed up the daemon.
func (p *pair) lasting(daemon *server, connections int, request requester, lasts time.Duration, sum *turnSum) error {
	p.runs++
	cost := &meter{server: daemon}
	result, err := load.Run(p.ctx, load.Options{
		Address: daemon.address, Connections: connections, Warmup: p.trial.settings.Warmup, Duration: lasts,
		Sample: cost.sample, Request: request, Answer: load.HTTPAnswer,
	})
	if err != nil {
		return err
	}
	cpu, answered, err := cost.total()
	sum.add(cpu, answered, result, result.PerSecond)
	return err
}

// settling measures so many writes until upstream has all of them. Its throughput counts that time.
func (p *pair) settling(daemon *server, connections int, sum *turnSum) error {
	before, err := daemon.cpuTime()
	if err != nil {
		return err
	}
	p.runs++
	began := time.Now()
	result, err := load.Run(p.ctx, load.Options{
		Address: daemon.address, Connections: connections, Requests: p.trial.settings.Writes / connections,
		Request: httpPuts(daemon.address, p.distinct), Answer: load.HTTPAnswer,
	})
	if err != nil {
		return err
	}
	if err := flush(p.ctx, daemon.address); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := daemon.cpuTime()
	sum.add(after-before, result.Requests, result, float64(result.Requests)/took.Seconds())
	return err
}
