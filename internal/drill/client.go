package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/numbered"
)

// The percentage of a client's operations that put and delete. The rest are reads.
const (
	putsPercent    = 55
	deletesPercent = 15
)

// A value has smallestValue bytes and up to valueSpread more.
const (
	smallestValue = 20
	valueSpread   = 400
)

// triesAtMost limits how often a read is tried that a kill cut off. Each connection from before the
// kill may fail once.
const triesAtMost = 5

// client writes to its own entries, and reads all clients' entries.
type client struct {
	drill *drill
	rng   *rand.Rand
	own   []*entry
}

// operate does one operation. It reads back what it writes.
func (c *client) operate(ctx context.Context) error {
	d := c.drill
	e, kind := c.own[c.rng.IntN(len(c.own))], c.rng.IntN(100)
	other, size := d.entries[c.rng.IntN(len(d.entries))], smallestValue+c.rng.IntN(valueSpread)
	contract := 6
	var err error
	switch {
	case kind < putsPercent:
		err = d.write(ctx, e, "put", func(n int) (uint64, error) {
			return d.daemon.Put(ctx, e.Namespace, e.Key, numbered.Value(e.Key, n, size))
		})
	case kind < putsPercent+deletesPercent:
		err = d.write(ctx, e, "delete", func(int) (uint64, error) { return d.daemon.Delete(ctx, e.Namespace, e.Key) })
	default:
		e, contract = other, 7
	}
	if err == nil && d.operations.Add(1) == d.killAt {
		err = d.restart(ctx)
	}
	if err != nil {
		return err
	}
	return d.read(ctx, e, contract)
}

// errNoAnswer is the error of a write that the daemon did not answer before it was killed.
var errNoAnswer = errors.New("the daemon was killed")

// ask makes a request with do. If the daemon is killed before it answers, ask waits until the daemon is
// back. Then ask returns errNoAnswer for a write, and tries a read again.
func (d *drill) ask(ctx context.Context, writes bool, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || refusalIn(err) != nil || errors.Is(err, api.ErrForeign) {
			return err
		}
		select {
		case d.restarting <- struct{}{}:
			<-d.restarting
		case <-ctx.Done():
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !d.killed.Load() || try == triesAtMost:
			return fmt.Errorf("the daemon does not answer: %w", err)
		case writes:
			return errNoAnswer
		}
	}
}

func refusalIn(err error) *api.Refused {
	refused, _ := errors.AsType[*api.Refused](err)
	return refused
}

func (d *drill) write(ctx context.Context, e *entry, op string, do func(n int) (seq uint64, err error)) error {
	n, oldest := e.Begin(op == "delete"), e.Oldest()
	var seq uint64
	err := d.ask(ctx, true, func() (err error) {
		seq, err = do(n)
		return err
	})
	refused := refusalIn(err)
	switch {
	case errors.Is(err, errNoAnswer):
		d.count(&d.audit.Unanswered)
		return nil
	case err == nil:
		e.Acknowledged(n)
		d.mu.Lock()
		defer d.mu.Unlock()
		e.acks = append(e.acks, ack{seq: seq, number: n, op: op, phase: d.phase.Name})
		d.phase.Acknowledged++
		return nil
	case refused == nil:
		return fmt.Errorf("%s %s: %w", op, e.Path(), err)
	}
	e.Refused(n)
	switch {
	case refused.Status == http.StatusNotFound && op == "delete":
		d.judge(e, oldest, "", false, 9)
	case refused.Status == http.StatusInsufficientStorage:
		d.found(3, e, "the daemon refused a %s: %s", op, refused)
	default:
		d.found(1, e, "the daemon refused a %s: %s", op, refused)
	}
	return nil
}

// get returns the daemon's answer to a read. A refusal is an answer, too, and is returned as an error.
func (d *drill) get(ctx context.Context, e *entry) (value string, err error) {
	err = d.ask(ctx, false, func() error {
		v, err := d.daemon.Get(ctx, e.Namespace, e.Key)
		value = v.Value
		return err
	})
	d.count(&d.phase.Reads)
	return value, err
}

// read reads an entry and checks a point of the contract. After a kill, it checks durability.
func (d *drill) read(ctx context.Context, e *entry, contract int) error {
	oldest := e.Oldest()
	there, known, _ := e.Certain()
	value, err := d.get(ctx, e)
	if d.killed.Load() {
		contract = 1
	}
	absent := api.IsRefused(err, http.StatusNotFound)
	switch refused := refusalIn(err); {
	case err == nil || absent:
		d.judge(e, oldest, value, !absent, contract)
	case errors.Is(err, api.ErrForeign):
		d.found(contract, e, "a read was answered with 200 and no value")
	case refused == nil:
		return err
	case there && known:
		d.found(contract, e, "the daemon has acknowledged the entry's value, and refused a read of it: %s", refused)
	}
	return nil
}

func (d *drill) judge(e *entry, oldest int, value string, found bool, contract int) {
	if err := e.Show(oldest, value, found); err != nil {
		d.found(contract, e, "a read through the daemon %v", err)
	}
}

// readStranger reads an entry that the daemon cannot know while upstream fails. The daemon may return
// its value, or refuse; it must not say that there is no entry.
func (d *drill) readStranger(ctx context.Context, namespace string) error {
	e := newEntry(namespace, strangersKey)
	value, err := d.get(ctx, e)
	refused := refusalIn(err)
	switch {
	case err == nil && value == strangersValue:
	case refused != nil && refused.Status == http.StatusServiceUnavailable && refused.Header.Get("Retry-After") != "":
	case refused != nil && refused.Status == http.StatusTooManyRequests: // passed on from upstream
	case err != nil && refused == nil && !errors.Is(err, api.ErrForeign):
		return err
	default:
		d.found(9, e, "upstream holds the entry and the daemon could not know that, but it answered a read with %.100q (%v)", value, err)
	}
	return nil
}

// list compares a listing with the entries. There are no writes meanwhile.
func (d *drill) list(ctx context.Context) error {
	var listing api.Listing
	err := d.ask(ctx, false, func() error {
		_, err := d.daemon.Read(ctx, api.Request{Path: api.Memory(namespace), Query: url.Values{"limit": {"1000"}}}, &listing)
		return err
	})
	switch {
	case refusalIn(err) != nil:
		return nil //nolint:nilerr // a refusal is an answer, too
	case errors.Is(err, api.ErrForeign):
		d.found(10, newEntry(namespace, ""), "a listing cannot be read: %v", err)
		return nil
	case err != nil:
		return err
	}
	shown := make(map[string]bool, len(listing.Keys))
	for _, k := range listing.Keys {
		shown[k.Key] = true
	}
	for _, e := range d.entries {
		if there, known, _ := e.Certain(); known && there != shown[e.Key] {
			d.found(10, e, "a listing shows the entry: %t; it is there: %t", shown[e.Key], there)
		}
	}
	return nil
}
