// Package drill rehearses an outage. Clients write, read back and delete through a daemon while its
// upstream fails in one way after another, and while the daemon itself is killed. The drill records
// every operation and checks three things. Every acknowledged write has a receipt: settled, superseded,
// pending or dead. Every answer to a read is possible. At the end, upstream holds the last acknowledged
// writes.
//
// The package does not know how a daemon is started or how upstream is made to fail: see [Rig]. The
// clients' operations and their order depend only on the seed. How long each takes, and so what
// upstream has by then, depends on the machine.
package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/internal/numbered"
	"github.com/botwired/botwired/internal/tasks"
)

// Rig controls a daemon that nobody else uses, and its upstream.
type Rig interface {
	// Restart kills the daemon like a crash, starts it again, and returns when it listens.
	Restart(ctx context.Context) error
	// Be makes upstream fail in the given way until the next call.
	Be(m faulty.Mode) error
	// Plant stores an entry upstream that the daemon does not know.
	Plant(ctx context.Context, namespace, key, value string) error
	// Read reads an entry upstream, without the daemon and without faults.
	Read(ctx context.Context, namespace, key string) (value string, found bool, err error)
}

// Options configures a drill. At the start, Rig is healthy and the daemon runs.
type Options struct {
	Rig Rig
	// Daemon reaches the daemon, also after a restart.
	Daemon http.RoundTripper
	// Seed decides what the clients do.
	Seed uint64
	// Lasts is about how long all phases take together. Gap is about how long a client pauses between
	// operations.
	Lasts, Gap time.Duration
	// Progress is called with one line for people per event.
	Progress func(line string)
}

// The number of concurrent clients, the number of keys of each, and their namespace.
const (
	clients   = 3
	keys      = 3
	namespace = "drill"
)

// steps are the phases. The phases with unanswered requests come first: the daemon may settle such
// writes only after upstream.late_window.
var steps = []struct {
	name string
	mode faulty.Mode
	says string // what happens to upstream, for people
	// kills means that the daemon is killed and restarted during the phase.
	kills bool
}{
	{name: "healthy", mode: faulty.Healthy, says: "answers"},
	{name: "times out", mode: faulty.Hangs, says: "never answers; carries half of the requests out, late"},
	{name: "cuts connections", mode: faulty.Cuts, says: "cuts connections, half of the requests carried out"},
	{name: "away", mode: faulty.Refuses, says: "refuses connections"},
	{name: "throttles", mode: faulty.Throttles, says: "429 with Retry-After: 1"},
	{name: "lies", mode: faulty.Lies, says: "a portal's 200, redirects, answers about another entry"},
	{name: "killed", mode: faulty.Refuses, kills: true, says: "refuses connections; the daemon is killed amid writes (SIGKILL)"},
	{name: "healthy again", mode: faulty.Healthy, says: "is back"},
}

const (
	// firstByte is how long the daemon may take to begin an answer, its wait for a receipt included.
	firstByte = time.Minute
	// recoveryLimit limits the wait, after each fault, until upstream has everything. A longer recovery
	// goes on during the next phases.
	recoveryLimit = 2 * time.Second
	// settleLimit limits the wait until upstream has everything at the end. It only catches hangs.
	settleLimit = 10 * time.Minute
)

// A stranger is an entry that upstream holds and the daemon does not know. In each phase with a fault,
// the drill reads one, in its own namespace.
const (
	strangersKey   = "known-upstream-only"
	strangersValue = "planted"
)

func stranger(step int) (namespace string) { return fmt.Sprintf("stranger-%d", step+1) }

// Run drills a daemon. It returns an error if the drill could not go on: the daemon does not answer, or
// ctx ended. In every case it leaves upstream healthy.
func Run(ctx context.Context, opts Options) (_ *Audit, err error) {
	began := time.Now()
	d := &drill{
		opts: opts, daemon: api.NewClient(api.Options{Transport: opts.Daemon, FirstByte: firstByte}),
		restarting: make(chan struct{}, 1), audit: Audit{Seed: opts.Seed, Findings: []Finding{}},
	}
	for c := range clients {
		cl := &client{drill: d, rng: rand.New(rand.NewPCG(opts.Seed, uint64(c)))}
		for k := range keys {
			cl.own = append(cl.own, newEntry(namespace, fmt.Sprintf("client%d-key%d", c+1, k+1)))
		}
		d.clients = append(d.clients, cl)
		d.entries = append(d.entries, cl.own...)
	}
	defer func() { err = errors.Join(err, opts.Rig.Be(faulty.Healthy)) }()
	for i := range steps {
		if err := opts.Rig.Plant(ctx, stranger(i), strangersKey, strangersValue); err != nil {
			return nil, fmt.Errorf("upstream does not answer the drill: %w", err)
		}
	}
	for i, s := range steps {
		d.phase = &Phase{Name: s.name, Upstream: s.says}
		if err := d.step(ctx, i); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		d.audit.Phases = append(d.audit.Phases, *d.phase)
	}
	d.phase = &Phase{Name: "the end"}
	opts.Progress("upstream is well again, and the drill waits for what is pending")
	if err := d.settle(ctx, settleLimit); err != nil {
		return nil, err
	}
	if err := d.conclude(ctx); err != nil {
		return nil, err
	}
	d.audit.Seconds = time.Since(began).Seconds()
	d.audit.OK = len(d.audit.Findings) == 0
	return &d.audit, nil
}

// step runs one phase: set the fault, let the clients work, check what is known, and end the fault.
func (d *drill) step(ctx context.Context, n int) error {
	s := &steps[n]
	d.opts.Progress(fmt.Sprintf("%d of %d, %s: upstream %s", n+1, len(steps), s.name, s.says))
	if err := d.opts.Rig.Be(s.mode); err != nil {
		return err
	}
	if err := d.work(ctx, s.kills); err != nil {
		return err
	}
	if s.kills { // acknowledged writes must be there
		for _, e := range d.entries {
			if err := d.read(ctx, e, 1); err != nil {
				return err
			}
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
	if err := d.survey(ctx); err != nil {
		return err
	}
	if err := d.opts.Rig.Be(faulty.Healthy); err != nil {
		return err
	}
	return d.settle(ctx, recoveryLimit)
}

func (d *drill) work(ctx context.Context, kills bool) error {
	d.operations.Store(0)
	d.killed.Store(false)
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
				if err := tasks.Sleep(working, time.Until(began.Add(time.Duration(i)*d.opts.Gap))); err != nil {
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
	return tasks.Sleep(ctx, time.Until(began.Add(lasts)))
}

func (d *drill) restart(ctx context.Context) error {
	d.restarting <- struct{}{}
	defer func() { <-d.restarting }()
	d.killed.Store(true)
	return d.opts.Rig.Restart(ctx)
}

type drill struct {
	opts    Options
	daemon  *api.Client
	entries []*entry
	clients []*client
	phase   *Phase // changes only while no client is at work

	operations atomic.Int64  // in the current phase
	killAt     int64         // the operation after which the daemon is killed; 0 means never
	killed     atomic.Bool   // in the current phase
	restarting chan struct{} // full while the daemon is killed and started again

	mu    sync.Mutex // guards the audit, the phase's counts and the entries' acks
	audit Audit
}

type entry struct {
	*numbered.Entry
	acks []ack
}

func newEntry(namespace, key string) *entry { return &entry{Entry: numbered.NewEntry(namespace, key)} }

type ack struct {
	seq    uint64
	number int // the number of the entry's write
	op     string
	phase  string
}

func (d *drill) count(n *int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*n++
}

func (d *drill) found(contract int, e *entry, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.audit.Findings = append(d.audit.Findings, Finding{contract, d.phase.Name, e.Namespace, e.Key, fmt.Sprintf(format, args...)})
}
