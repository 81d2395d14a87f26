package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

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
	var err error
	switch {
	case kind < putsPercent:
		err = d.put(ctx, e, size)
	case kind < putsPercent+deletesPercent:
		err = d.delete(ctx, e)
	default:
		e = other
	}
	if err != nil {
		return err
	}
	if err := d.operated(ctx); err != nil {
		return err
	}
	return d.read(ctx, e, kind < putsPercent+deletesPercent)
}

// errNoAnswer is the error of a write that the daemon did not answer before it was killed.
var errNoAnswer = errors.New("the daemon was killed")

// ask makes a request with do. If the daemon is killed before it answers, ask waits until the daemon is
// back. Then ask returns errNoAnswer for a write, and tries a read again.
func (d *drill) ask(ctx context.Context, writes bool, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		switch {
		case err == nil || refusalIn(err) != nil || errors.Is(err, api.ErrForeign):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		killed, failed := d.awaitRestart(ctx)
		switch {
		case failed != nil:
			return failed
		case !killed || try == triesAtMost:
			return fmt.Errorf("the daemon does not answer: %w", err)
		}
		d.mu.Lock()
		if d.phase != nil {
			d.phase.Unanswered++
		}
		d.mu.Unlock()
		if writes {
			return errNoAnswer
		}
	}
}

// refusalIn returns the refusal in an error, or nil.
func refusalIn(err error) *api.Refused {
	refused, _ := errors.AsType[*api.Refused](err)
	return refused
}

func (d *drill) put(ctx context.Context, e *entry, size int) error {
	n := e.Begin(false)
	return d.write(ctx, e, n, "put", func() (uint64, error) {
		return d.opts.Daemon.Put(ctx, e.Namespace, e.Key, numbered.Value(e.Key, n, size))
	})
}

func (d *drill) delete(ctx context.Context, e *entry) error {
	return d.write(ctx, e, e.Begin(true), "delete", func() (uint64, error) {
		return d.opts.Daemon.Delete(ctx, e.Namespace, e.Key)
	})
}

// write makes a write that has begun, and records its outcome.
func (d *drill) write(ctx context.Context, e *entry, n int, op string, do func() (seq uint64, err error)) error {
	oldest, began := e.Oldest(), time.Now()
	var seq uint64
	err := d.ask(ctx, true, func() (err error) {
		seq, err = do()
		return err
	})
	took, refused := time.Since(began), refusalIn(err)
	switch {
	case errors.Is(err, errNoAnswer):
		d.mu.Lock()
		d.audit.Books.Unanswered++
		d.mu.Unlock()
		return nil
	case err == nil:
		e.Acknowledged(n)
		d.mu.Lock()
		defer d.mu.Unlock()
		e.acks = append(e.acks, &ack{seq: seq, number: n, op: op, at: time.Now(), phase: d.phase.Name})
		d.phase.Acknowledged++
		d.phase.writes = append(d.phase.writes, took)
		return nil
	case refused == nil:
		return fmt.Errorf("%s %s: %w", op, e.Path(), err)
	}
	e.Refused(n)
	if refused.Status == http.StatusNotFound && op == "delete" {
		d.judge(ctx, e, oldest, "", false, 9)
		return nil
	}
	d.mu.Lock()
	d.phase.Refused++
	d.mu.Unlock()
	contract := 1
	if refused.Status == http.StatusInsufficientStorage {
		contract = 3
	}
	d.found(ctx, contract, e, "the daemon refused a %s: %s", op, refused)
	return nil
}

// get returns the daemon's answer to a read. A refusal is an answer, too, and is returned as an error.
func (d *drill) get(ctx context.Context, e *entry) (value string, err error) {
	err = d.ask(ctx, false, func() error {
		v, err := d.opts.Daemon.Get(ctx, e.Namespace, e.Key)
		value = v.Value
		return err
	})
	return value, err
}

// read reads an entry and checks the answer; own says that the same client has just written it.
func (d *drill) read(ctx context.Context, e *entry, own bool) error {
	contract := 7
	if own {
		contract = 6
	}
	return d.readFor(ctx, e, contract)
}

// readFor reads an entry and checks a point of the contract. After a kill, it checks durability.
func (d *drill) readFor(ctx context.Context, e *entry, contract int) error {
	oldest, began := e.Oldest(), time.Now()
	there, known, _ := e.Certain()
	value, err := d.get(ctx, e)
	took, refused := time.Since(began), refusalIn(err)
	foreign, absent := errors.Is(err, api.ErrForeign), api.IsRefused(err, http.StatusNotFound)
	if err != nil && refused == nil && !foreign {
		return err
	}
	d.mu.Lock()
	if d.phase != nil {
		if d.phase.Down != nil {
			contract = 1 // acknowledged writes survive the kill
		}
		d.phase.Reads++
		d.phase.reads = append(d.phase.reads, took)
		if refused != nil && !absent {
			d.phase.Refused++
		}
	}
	d.mu.Unlock()
	switch {
	case err == nil || absent:
		d.judge(ctx, e, oldest, value, !absent, contract)
	case foreign:
		d.found(ctx, contract, e, "a read was answered with 200 and no value")
	case there && known:
		d.found(ctx, contract, e, "the daemon has acknowledged the entry's value, and refused a read of it: %s", refused)
	}
	return nil
}

// judge checks an answer against the values that are possible.
func (d *drill) judge(ctx context.Context, e *entry, oldest int, value string, found bool, contract int) {
	if err := e.Show(oldest, value, found); err != nil {
		d.found(ctx, contract, e, "a read through the daemon %v", err)
	}
}

// readAll reads every entry after a crash: acknowledged writes must be there.
func (d *drill) readAll(ctx context.Context) error {
	for _, e := range d.entries {
		if err := d.read(ctx, e, false); err != nil {
			return err
		}
	}
	return nil
}

// readStranger reads an entry that the daemon cannot know while upstream fails. The daemon may return
// its value, or refuse; it must not say that there is no entry.
func (d *drill) readStranger(ctx context.Context, namespace string) error {
	e := newEntry(namespace, strangersKey)
	value, err := d.get(ctx, e)
	refused := refusalIn(err)
	if err != nil && refused == nil && !errors.Is(err, api.ErrForeign) {
		return err
	}
	d.mu.Lock()
	d.phase.Reads++
	if refused != nil && refused.Status == http.StatusServiceUnavailable {
		d.phase.Refused++
	}
	d.mu.Unlock()
	switch {
	case err == nil && value == strangersValue:
	case refused != nil && refused.Status == http.StatusServiceUnavailable && refused.Header.Get("Retry-After") != "":
	case refused != nil && refused.Status == http.StatusTooManyRequests: // passed on from upstream
	default:
		d.found(ctx, 9, e, "upstream holds the entry and the daemon could not know that, but it answered a read with %.100q (%v)", value, err)
	}
	return nil
}

// list compares a listing with the entries. There are no writes meanwhile.
func (d *drill) list(ctx context.Context) error {
	var listing api.Listing
	err := d.ask(ctx, false, func() error {
		_, err := d.opts.Daemon.Read(ctx, api.Request{Path: api.Memory(namespace), Query: url.Values{"limit": {"1000"}}}, &listing)
		return err
	})
	switch {
	case refusalIn(err) != nil:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.phase.Refused++
		return nil
	case errors.Is(err, api.ErrForeign):
		d.found(ctx, 10, newEntry(namespace, ""), "a listing cannot be read: %v", err)
		return nil
	case err != nil:
		return err
	}
	shown := make(map[string]bool, len(listing.Keys))
	for _, k := range listing.Keys {
		shown[k.Key] = true
	}
	d.mu.Lock()
	d.phase.Reads++
	d.mu.Unlock()
	for _, e := range d.entries {
		if there, known, _ := e.Certain(); known && there != shown[e.Key] {
			d.found(ctx, 10, e, "a listing shows the entry: %t; it is there: %t", shown[e.Key], there)
		}
	}
	return nil
}
