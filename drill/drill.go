package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/internal/numbered"
)

const (
	// findingsKept bounds the findings of an audit.
	findingsKept = 20
	// recoveryLimit bounds the wait, after each phase, for upstream to have the first write
	// that is pending. A longer recovery goes on in the next phases.
	recoveryLimit = 5 * time.Second
	// undoLimit bounds how long the drill takes to undo what it has done.
	undoLimit = 30 * time.Second
)

// drill is one run.
type drill struct {
	opts    Options
	entries []*entry
	clients []*client
	audit   Audit

	mu         sync.Mutex // guards the fields below, the audit and the entries' acks
	phase      *Phase     // nil between two
	phaseName  string
	restarting chan struct{} // closed when the daemon is there again; nil if it is there
	failed     error         // of the restart

	operations atomic.Int64 // in the present phase
	killAt     int64        // the operation after which the daemon is killed; 0 is none
}

// entry is one of the drill's, and the acknowledged writes to it.
type entry struct {
	*numbered.Entry
	acks []*ack
}

// ack is an acknowledged write.
type ack struct {
	seq     uint64
	number  int // of the entry's write
	op      string
	at      time.Time
	phase   string
	receipt *Receipt // the last that was asked for; nil if there is none
}

// Run drills a daemon. It returns an error if the drill itself could not go on: the daemon
// does not answer, or ctx has ended. Whatever the outcome, upstream is healthy then, and with
// CleanUp the drill's entries are deleted.
func Run(ctx context.Context, opts Options) (_ *Audit, err error) {
	d := &drill{opts: opts}
	d.audit = Audit{Live: opts.Live, Seed: opts.Seed, Namespace: opts.Namespace, BeganAt: unix(time.Now()), Findings: []Finding{}}
	for c := range opts.Clients {
		cl := &client{drill: d, rng: rand.New(rand.NewPCG(opts.Seed, uint64(c)))}
		for k := range opts.Keys {
			cl.own = append(cl.own, &entry{Entry: numbered.NewEntry(opts.Namespace, fmt.Sprintf("%sclient%d-key%d", opts.Prefix, c+1, k+1))})
		}
		d.clients = append(d.clients, cl)
		d.entries = append(d.entries, cl.own...)
	}
	began := time.Now()
	defer func() {
		undone, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		err = errors.Join(err, opts.Upstream.Be(Healthy))
		if opts.CleanUp {
			d.cleanUp(undone, ctx)
		}
		d.audit.Seconds = time.Since(began).Seconds()
		d.audit.conclude()
		if err == nil {
			d.report(Event{Event: EventAudit, Text: d.audit.Verdict, Audit: &d.audit})
		}
	}()
	return &d.audit, d.run(ctx)
}

func (d *drill) run(ctx context.Context) error {
	var names []string
	for _, s := range d.opts.Steps {
		names = append(names, s.name())
	}
	d.report(Event{Event: EventStarted, Name: d.opts.Namespace, Steps: names, Seconds: d.opts.StepLasts.Seconds() * float64(len(names))})
	for i, s := range d.opts.Steps {
		if err := d.step(ctx, i, s); err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
	}
	d.phaseName = "the end"
	if err := d.settle(ctx); err != nil {
		return err
	}
	if err := d.closeBooks(ctx); err != nil {
		return err
	}
	return d.compare(ctx)
}

// name is the phase's.
func (s *Step) name() string {
	if s.Kills {
		return "killed"
	}
	return string(s.Fault)
}

// step goes through one phase: the fault, the clients at work, a look at the books, and
// upstream's return.
func (d *drill) step(ctx context.Context, n int, s Step) error {
	began := time.Now()
	p := &Phase{Name: s.name(), Upstream: s.Says}
	d.mu.Lock()
	d.phase, d.phaseName = p, p.Name
	d.mu.Unlock()
	d.report(Event{Event: EventPhase, Name: p.Name, Text: s.Says, Seconds: d.opts.StepLasts.Seconds()})
	if err := d.opts.Upstream.Be(s.Fault); err != nil {
		return err
	}
	if err := d.work(ctx, s.Kills); err != nil {
		return err
	}
	if s.Kills {
		if err := d.readAll(ctx); err != nil {
			return err
		}
	}
	if s.Fault != Healthy && n < len(d.opts.Strangers) {
		if err := d.readStranger(ctx, d.opts.Strangers[n]); err != nil {
			return err
		}
	}
	if err := d.list(ctx); err != nil {
		return err
	}
	waiting, err := d.survey(ctx)
	if err != nil {
		return err
	}
	if p.Pending = len(waiting); p.Pending > 0 {
		p.OldestPending = time.Since(waiting[0].at).Seconds()
	}
	if err := d.opts.Upstream.Be(Healthy); err != nil {
		return err
	}
	if p.Recovery, err = d.recovery(ctx, waiting); err != nil {
		return err
	}
	p.Seconds = time.Since(began).Seconds()
	d.mu.Lock()
	p.Writes, p.ReadLatency = latencyOf(&p.writes), latencyOf(&p.reads)
	d.phase = nil
	d.audit.Phases = append(d.audit.Phases, *p)
	d.mu.Unlock()
	d.report(Event{Event: EventPhaseEnded, Name: p.Name, Phase: p})
	return nil
}

// work lets the clients work for the length of a phase.
func (d *drill) work(ctx context.Context, kills bool) error {
	d.operations.Store(0)
	d.killAt = 0
	if kills {
		d.killAt = int64(max(1, d.opts.Clients*d.opts.Operations/2))
	}
	began, gap := time.Now(), d.opts.StepLasts/time.Duration(max(1, d.opts.Operations))
	g, working := errgroup.WithContext(ctx)
	for _, c := range d.clients {
		g.Go(func() error {
			for i := range d.opts.Operations {
				if err := pause(working, time.Until(began.Add(time.Duration(i)*gap))); err != nil {
					return err
				}
				if err := c.operate(working); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return pause(ctx, time.Until(began.Add(d.opts.StepLasts)))
}

// pause returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// operated counts an operation, and kills the daemon after the one that is chosen.
func (d *drill) operated(ctx context.Context) error {
	if d.operations.Add(1) != d.killAt {
		return nil
	}
	there := make(chan struct{})
	defer close(there)
	d.mu.Lock()
	d.restarting = there
	d.mu.Unlock()
	began := time.Now()
	err := d.opts.Restart(ctx)
	down := time.Since(began).Seconds()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase.Down, d.failed, d.restarting = &down, err, nil
	return err
}

// awaitRestart waits until a daemon that was killed is there again. It returns false if it
// was not killed.
func (d *drill) awaitRestart(ctx context.Context) (killed bool, err error) {
	d.mu.Lock()
	there, killed := d.restarting, d.phase != nil && d.phase.Down != nil
	d.mu.Unlock()
	if there == nil {
		return killed, nil
	}
	select {
	case <-there:
	case <-ctx.Done():
		return true, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return true, d.failed
}

func (d *drill) report(e Event) {
	if d.opts.Report == nil {
		return
	}
	e.At = unix(time.Now())
	d.opts.Report(e)
}

// found notes what must not happen. The receipts of the entry tell its story.
func (d *drill) found(ctx context.Context, contract int, e *entry, namespace, key, format string, args ...any) {
	f := Finding{Contract: contract, Namespace: namespace, Key: key, Text: fmt.Sprintf(format, args...), Receipts: []Receipt{}}
	d.mu.Lock()
	f.Phase = d.phaseName
	full := len(d.audit.Findings) >= findingsKept
	if full {
		d.audit.More++
	}
	d.mu.Unlock()
	if full {
		return
	}
	if e != nil {
		f.Receipts = d.story(ctx, e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.audit.Findings = append(d.audit.Findings, f)
	d.report(Event{Event: EventFinding, Text: f.Text, Finding: &f})
}
