package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/botwired/botwired/internal/load"
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
		for i := range last {
			if err := p.compare(round, rows[i]); err != nil {
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

// compare measures the daemons in turns: the one that begins also ends.
func (p *pair) compare(round int, row *featureRow) error {
	first := variant(round % len(p.daemons))
	var sums [2]turnFigures
	for _, v := range []variant{first, 1 - first, 1 - first, first} {
		f, err := p.turn(v, row)
		if err != nil {
			return fmt.Errorf("%s, %d connections, %s: %w", row.Load, row.Connections, p.feature.variants[v], err)
		}
		sums[v].add(f)
	}
	row.Rounds = append(row.Rounds, featureRound{Without: sums[without].half(), With: sums[with].half()})
	return nil
}

// turn measures one daemon under a load, and has the feature used meanwhile.
func (p *pair) turn(v variant, row *featureRow) (turnFigures, error) {
	if v == without || p.feature.use == nil {
		return p.measure(p.daemons[v], row)
	}
	u, err := p.feature.use(p)
	if err != nil {
		return turnFigures{}, err
	}
	f, err := p.measure(p.daemons[v], row)
	return f, errors.Join(err, u.stop())
}

func (p *pair) measure(daemon *server, row *featureRow) (turnFigures, error) {
	switch row.Load {
	case getHit:
		return p.hitting(daemon, row.Connections)
	case putSettled:
		return p.settling(daemon, row.Connections)
	}
	return p.lasting(daemon, row.Connections, httpPuts(daemon.address, p.distinct))
}

// hitting measures reads, and fails if the daemon asked upstream for one.
func (p *pair) hitting(daemon *server, connections int) (turnFigures, error) {
	on, err := answeredHere(p.ctx, ofHTTP(daemon, getEntries(daemon.address)))
	if err != nil {
		return turnFigures{}, err
	}
	f, err := p.lasting(daemon, connections, on.request)
	return f, errors.Join(err, on.done(p.ctx))
}

// distinct names an entry for each request of the pair, of a thousand agents.
func (p *pair) distinct(dst []byte, connection, n int) []byte {
	return fmt.Appendf(dst, "agent-%d/run-%d-%d-%d", (connection*31+n)%1000, p.runs, connection, n)
}

// lasting measures a load that lasts for some time, after the same load has warmed up the daemon.
func (p *pair) lasting(daemon *server, connections int, request requester) (turnFigures, error) {
	put := func(lasts time.Duration) (*load.Result, error) {
		p.runs++
		return load.Run(p.ctx, load.Options{
			Address: daemon.address, Connections: connections, Duration: lasts, Request: request, Answer: load.HTTPAnswer,
		})
	}
	if _, err := put(p.trial.settings.Warmup); err != nil {
		return turnFigures{}, err
	}
	before, err := daemon.cpuTime()
	if err != nil {
		return turnFigures{}, err
	}
	result, err := put(p.trial.settings.For)
	if err != nil {
		return turnFigures{}, err
	}
	after, err := daemon.cpuTime()
	if err != nil {
		return turnFigures{}, err
	}
	return turnOf(result, after-before), nil
}

// settling measures so many writes until upstream has all of them. Its throughput counts that time.
func (p *pair) settling(daemon *server, connections int) (turnFigures, error) {
	before, err := daemon.cpuTime()
	if err != nil {
		return turnFigures{}, err
	}
	p.runs++
	began := time.Now()
	result, err := load.Run(p.ctx, load.Options{
		Address: daemon.address, Connections: connections, Requests: p.trial.settings.Writes / connections,
		Request: httpPuts(daemon.address, p.distinct), Answer: load.HTTPAnswer,
	})
	if err != nil {
		return turnFigures{}, err
	}
	if err := flush(p.ctx, daemon.address); err != nil {
		return turnFigures{}, err
	}
	took := time.Since(began)
	after, err := daemon.cpuTime()
	f := turnOf(result, after-before)
	f.PerSecond = float64(result.Requests) / took.Seconds()
	return f, err
}
