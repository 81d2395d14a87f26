package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// crowd is a daemon in front of an upstream, and the callers of all its lives.
type crowd struct {
	plan    plan
	up      *service
	history history

	mu     sync.Mutex
	life   *life         // nil between two
	lived  int           // the number of lives so far
	awake  chan struct{} // closed when the next life begins
	failed error         // why there is no next life
	odd    []string      // answers that no history explains

	// restoring is held for a restoration: it believes what upstream lacks at its end. It is held for a purge, too, which
	// leaves what a restoration writes meanwhile.
	restoring sync.Mutex
}

func newCrowd(p plan) (*crowd, error) {
	c := &crowd{plan: p, up: newServiceOf(p.settings), awake: make(chan struct{})}
	c.up.latency, c.up.tardy, c.up.prompt = p.latency, p.tardy(c.up), p.virtual
	c.prepare()
	return c, c.wake(vfs.NewCrashableMem())
}

// prepare gives upstream half of the entries beforehand: no write of the round has the same time or an earlier one.
func (c *crowd) prepare() {
	defer time.Sleep(time.Millisecond)
	for i, id := range entries {
		if i%2 == 0 {
			value := fmt.Sprintf("upstream%d", i)
			c.up.set(id, value, c.up.veil.seal(id, value), away)
			c.history.add(operation{id: id, did: put, value: value, code: http.StatusOK})
		}
	}
}

// wake starts the next life.
func (c *crowd) wake(fs *vfs.MemFS) error {
	l := c.plan.life(c.lived)
	l.fs, l.history, l.ended = fs, &c.history, make(chan struct{})
	var err error
	if l.node, err = open(l.disk(), c.up, c.plan.settings); err != nil {
		err = errors.Join(fmt.Errorf("start %d", c.lived+1), err)
	} else {
		l.node.start()
		l.serving.Store(true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life, c.failed = l, err
	c.lived++
	close(c.awake)
	return err
}

// enter begins a caller's call in the present life, which tells its callers when it is
// over. It returns nil when there is no life any more.
func (c *crowd) enter() *life {
	for {
		c.mu.Lock()
		l, awake, failed := c.life, c.awake, c.failed
		if l != nil && failed == nil {
			l.callers.Add(1)
		}
		c.mu.Unlock()
		if l != nil && failed == nil {
			return l
		}
		if failed != nil {
			return nil
		}
		<-awake
	}
}

// next leads from a life that is over to the one that follows.
func (c *crowd) next() error {
	c.mu.Lock()
	l := c.life
	c.life, c.awake = nil, make(chan struct{})
	c.mu.Unlock()
	fs, err := c.bury(l)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed = err
		close(c.awake)
		return err
	}
	return c.wake(fs)
}

// bury waits for a life's end and returns its file system.
func (c *crowd) bury(l *life) (*vfs.MemFS, error) {
	<-l.ended
	l.callers.Wait()
	if err := l.node.end(); err != nil {
		return nil, fmt.Errorf("stop %d: %w", c.lived, err)
	}
	if !c.plan.virtual {
		c.up.cutOff()
	}
	if l.clone != nil {
		return l.clone, nil
	}
	return l.fs, nil
}

// supervise starts the daemon again whenever it ends, until the callers are done.
func (c *crowd) supervise(done <-chan struct{}) error {
	for {
		c.mu.Lock()
		l := c.life
		c.mu.Unlock()
		select {
		case <-done:
			return nil
		case <-l.ended:
			if err := c.next(); err != nil {
				return err
			}
		}
	}
}

// run lets the callers work, ends with one more restart and a look at everything, and
// returns the errors that need no checker.
func (c *crowd) run() error {
	var callers sync.WaitGroup
	for i := range c.plan.callers {
		callers.Go(func() { c.call(i) })
	}
	done := make(chan struct{})
	supervised := make(chan error, 1)
	go func() { supervised <- c.supervise(done) }()
	callers.Wait()
	close(done)
	err := <-supervised
	if err == nil {
		err = c.finish()
	}
	c.up.close()
	return err
}

func (c *crowd) finish() error {
	c.life.retire() // it may have crashed
	if err := c.next(); err != nil {
		return err
	}
	last := newCaller(c, c.plan.callers, ^uint64(0))
	for _, id := range entries {
		last.do(get, id, "")
	}
	c.life.retire()
	_, err := c.bury(c.life)
	return errors.Join(err, c.up.violation())
}

// writesElsewhere has another host put or delete an entry. That write is older than those that callers begin after
// writesElsewhere has returned.
func (c *crowd) writesElsewhere(o operation, deletes bool) {
	if o.value = "their-" + o.value; deletes && !c.plan.loses {
		o.value = ""
	}
	o.call = c.history.tick()
	c.up.mu.Lock()
	if o.value != "" {
		c.up.set(o.id, o.value, c.up.veil.seal(o.id, o.value), away)
	} else {
		delete(c.up.entries, o.id)
	}
	c.up.mu.Unlock()
	time.Sleep(time.Millisecond)
	o.seen, o.code, o.life = c.history.tick(), http.StatusOK, nil
	c.history.add(o)
}

// loses makes upstream lose an entry that the daemon has written, and of which it therefore has a copy. No caller ever sees that.
func (c *crowd) loses(id journal.ID) {
	if !c.restoring.TryLock() {
		return
	}
	defer c.restoring.Unlock()
	c.up.mu.Lock()
	defer c.up.mu.Unlock()
	if c.up.entries[id].by != away {
		delete(c.up.entries, id)
	}
}

// turn changes the weather.
func (c *crowd) turn(rng *rand.Rand) {
	f := c.plan.weather(rng)
	c.up.become(condition{fault: f, lateness: time.Duration(rng.IntN(29_000)) * time.Millisecond}, "")
	if f == down && !c.plan.virtual {
		c.up.cutOff() // a late landing would be later than so short a late window
	}
}

func (c *crowd) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.odd = append(c.odd, fmt.Sprintf(format, args...))
}
