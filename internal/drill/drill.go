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

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/internal/numbered"
)

const (
	// findingsKept limits the findings of an audit.
	findingsKept = 20
	// recoveryLimit limits the wait, after each phase, until upstream has the first pending write. A
	// longer recovery goes on during the next phases.
	recoveryLimit = 5 * time.Second
)

type drill struct {
	opts    Options
	entries []*entry
	clients []*client
	audit   Audit

	mu         sync.Mutex    // guards the fields below, the audit and the entries' acks
	phase      *Phase        // nil after the last phase
	restarting chan struct{} // closed when the daemon is back; nil unless it restarts
	failed     error         // the restart's error

	operations atomic.Int64 // in the current phase
	killAt     int64        // the operation after which the daemon is killed; 0 means never
}

// A stranger is an entry that upstream holds and the daemon does not know. In each phase with a fault,
// the drill reads one, in its own namespace.
const (
	strangersKey   = "known-upstream-only"
	strangersValue = "planted"
)

func stranger(step int) (namespace string) { return fmt.Sprintf("stranger-%d", step+1) }

// entry is an entry of the drill, with its acknowledged writes.
type entry struct {
	*numbered.Entry
	acks []*ack
}

func newEntry(namespace, key string) *entry { return &entry{Entry: numbered.NewEntry(namespace, key)} }

// ack is an acknowledged write.
type ack struct {
	seq     uint64
	number  int // the number of the entry's write
	op      string
	at      time.Time
	phase   string
	receipt *api.Receipt // the latest one; nil if there is none
}

// Run drills a daemon. It returns an error if the drill could not go on: the daemon does not answer, or
// ctx ended. In every case it leaves upstream healthy.
func Run(ctx context.Context, opts Options) (_ *Audit, err error) {
	began := time.Now()
	d := &drill{opts: opts, audit: Audit{Seed: opts.Seed, Findings: []Finding{}}}
	for c := range clients {
		cl := &client{drill: d, rng: rand.New(rand.NewPCG(opts.Seed, uint64(c)))}
		for k := range keys {
			cl.own = append(cl.own, newEntry(namespace, fmt.Sprintf("client%d-key%d", c+1, k+1)))
		}
		d.clients = append(d.clients, cl)
		d.entries = append(d.entries, cl.own...)
	}
	defer func() { err = errors.Join(err, opts.Rig.Be(faulty.Healthy)) }()
	if err := d.run(ctx); err != nil {
		return nil, err
	}
	d.audit.Seconds = time.Since(began).Seconds()
	d.audit.conclude()
	return &d.audit, nil
}

func (d *drill) run(ctx context.Context) error {
	for i := range steps {
		if err := d.opts.Rig.Plant(ctx, stranger(i), strangersKey, strangersValue); err != nil {
			return fmt.Errorf("upstream does not answer the drill: %w", err)
		}
	}
	for i := range steps {
		if err := d.step(ctx, i); err != nil {
			return fmt.Errorf("%s: %w", steps[i].name, err)
		}
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	if err := d.closeBooks(ctx); err != nil {
		return err
	}
	return d.compare(ctx)
}

// step runs one phase: set the fault, let the clients work, check the books, and end the fault.
func (d *drill) step(ctx context.Context, n int) error {
	s, began := &steps[n], time.Now()
	p := &Phase{Name: s.name, Upstream: s.says}
	d.setPhase(p)
	defer d.setPhase(nil)
	d.tell("%d of %d, %s: upstream %s", n+1, len(steps), s.name, s.says)
	if err := d.opts.Rig.Be(s.mode); err != nil {
		return err
	}
	if err := d.work(ctx, s.kills); err != nil {
		return err
	}
	if s.kills {
		if err := d.readAll(ctx); err != nil {
			return err
		}
	}
	if s.mode != faulty.Healthy {
		if err := d.readStranger(ctx, stranger(n)); err != nil {
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
	if err := d.opts.Rig.Be(faulty.Healthy); err != nil {
		return err
	}
	if p.Recovery, err = d.recovery(ctx, waiting); err != nil {
		return err
	}
	p.Seconds = time.Since(began).Seconds()
	p.Writes, p.ReadLatency = latencyOf(p.writes), latencyOf(p.reads)
	d.audit.Phases = append(d.audit.Phases, *p)
	return nil
}

func (d *drill) setPhase(p *Phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = p
}

// tell reports progress to the user.
func (d *drill) tell(format string, args ...any) {
	if d.opts.Progress != nil {
		d.opts.Progress(fmt.Sprintf(format, args...))
	}
}

// work runs the clients for the length of a phase.
func (d *drill) work(ctx context.Context, kills bool) error {
	d.operations.Store(0)
	d.killAt = 0
	began, lasts := time.Now(), d.opts.Lasts/time.Duration(len(steps))
	operations := max(1, int(lasts/d.opts.Gap))
	if kills {
		d.killAt = int64(max(1, clients*operations/2))
	}
	g, working := errgroup.WithContext(ctx)
	for _, c := range d.clients {
		g.Go(func() error {
			for i := range operations {
				if err := pause(working, time.Until(began.Add(time.Duration(i)*d.opts.Gap))); err != nil {
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
	return pause(ctx, time.Until(began.Add(lasts)))
}

// pause waits, and returns ctx's error.
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

// operated counts an operation. After operation killAt, it kills the daemon and starts it again.
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
	err := d.opts.Rig.Restart(ctx)
	down := time.Since(began).Seconds()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase.Down, d.failed, d.restarting = &down, err, nil
	return err
}

// awaitRestart waits until a killed daemon is back. It returns false if the daemon was not killed.
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

// found records a finding about an entry, with the entry's receipts.
func (d *drill) found(ctx context.Context, contract int, e *entry, format string, args ...any) {
	f := Finding{Contract: contract, Phase: "the end", Namespace: e.Namespace, Key: e.Key, Text: fmt.Sprintf(format, args...), Receipts: []api.Receipt{}}
	d.mu.Lock()
	if d.phase != nil {
		f.Phase = d.phase.Name
	}
	full := len(d.audit.Findings) >= findingsKept
	if full {
		d.audit.More++
	}
	d.mu.Unlock()
	if full {
		return
	}
	f.Receipts = d.story(ctx, e)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.audit.Findings = append(d.audit.Findings, f)
}
