package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/numbered"
)

// Of a hundred operations of a client, so many put and so many delete. The rest read.
const (
	putsPercent    = 55
	deletesPercent = 15
)

// A value has from smallest to smallest+spread bytes.
const (
	smallestValue = 20
	valueSpread   = 400
)

// triesAtMost bounds how often a read is made again that a kill has cut off. Connections from
// before the kill may fail once each.
const triesAtMost = 5

// client writes to entries of its own, and reads everybody's.
type client struct {
	drill *drill
	rng   *rand.Rand
	own   []*entry
}

// operate does one operation. A write is read back.
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

// errNoAnswer says that the daemon was killed before it answered.
var errNoAnswer = errors.New("the daemon was killed")

// ask makes a request. If the daemon is killed before it answers, ask returns once it is
// there again: with the error errNoAnswer for a write, and for a read with another try's answer.
func (d *drill) ask(ctx context.Context, method, target string, body []byte) (*Answer, error) {
	for try := 1; ; try++ {
		a, err := d.opts.Rig.Ask(ctx, method, target, body)
		switch {
		case err == nil:
			return a, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		killed, failed := d.awaitRestart(ctx)
		switch {
		case failed != nil:
			return nil, failed
		case !killed || try == triesAtMost:
			return nil, fmt.Errorf("the daemon does not answer: %w", err)
		}
		d.mu.Lock()
		if d.phase != nil {
			d.phase.Unanswered++
		}
		d.mu.Unlock()
		if method != http.MethodGet {
			return nil, errNoAnswer
		}
	}
}

func (d *drill) put(ctx context.Context, e *entry, size int) error {
	n := e.Begin(false)
	body, err := json.Marshal(map[string]string{"value": numbered.Value(e.Key, n, size)})
	if err != nil {
		return err
	}
	return d.write(ctx, e, n, http.MethodPut, body)
}

func (d *drill) delete(ctx context.Context, e *entry) error {
	return d.write(ctx, e, e.Begin(true), http.MethodDelete, nil)
}

// write makes a write that has begun, and enters its outcome in the books.
func (d *drill) write(ctx context.Context, e *entry, n int, method string, body []byte) error {
	oldest, began := e.Oldest(), time.Now()
	a, err := d.ask(ctx, method, e.Path(), body)
	took := time.Since(began)
	if errors.Is(err, errNoAnswer) {
		d.mu.Lock()
		d.audit.Books.Unanswered++
		d.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case a.Status == http.StatusOK:
		seq, ok := seqOf(a.Header.Get("Botwired-Write"))
		if !ok {
			return fmt.Errorf("%s %s: the answer 200 has no seq in Botwired-Write (%q)", method, e.Path(), a.Header.Get("Botwired-Write"))
		}
		e.Acknowledged(n)
		d.mu.Lock()
		defer d.mu.Unlock()
		e.acks = append(e.acks, &ack{seq: seq, number: n, op: strings.ToLower(method), at: time.Now(), phase: d.phase.Name})
		d.phase.Acknowledged++
		d.phase.writes = append(d.phase.writes, took)
		return nil
	case a.Status == http.StatusNotFound && method == http.MethodDelete:
		e.Refused(n)
		d.judge(ctx, e, oldest, "", false, 9)
		return nil
	}
	e.Refused(n)
	d.mu.Lock()
	d.phase.Refused++
	d.mu.Unlock()
	contract := 1
	if a.Status == http.StatusInsufficientStorage {
		contract = 3
	}
	d.found(ctx, contract, e, "the daemon refused a %s with %d: %s", method, a.Status, detail(a.Body))
	return nil
}

// seqOf reads the number in a Botwired-Write header.
func seqOf(header string) (uint64, bool) {
	_, digits, ok := strings.Cut(header, "seq=")
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, ok && err == nil
}

// detail is an error's text.
func detail(body []byte) string {
	var doc struct{ Detail string }
	if json.Unmarshal(body, &doc) == nil && doc.Detail != "" {
		return doc.Detail
	}
	return fmt.Sprintf("%.100q", body)
}

// read reads an entry, and judges the answer; own says that its reader has just written it.
func (d *drill) read(ctx context.Context, e *entry, own bool) error {
	contract := 7
	if own {
		contract = 6
	}
	return d.readFor(ctx, e, contract)
}

// readFor is read for a promise of the contract. After a kill, that is durability.
func (d *drill) readFor(ctx context.Context, e *entry, contract int) error {
	oldest, began := e.Oldest(), time.Now()
	there, known, _ := e.Certain()
	a, err := d.ask(ctx, http.MethodGet, e.Path(), nil)
	took := time.Since(began)
	if err != nil {
		return err
	}
	d.mu.Lock()
	if d.phase != nil {
		if d.phase.Down != nil {
			contract = 1 // what was acknowledged has outlived the kill
		}
		d.phase.Reads++
		d.phase.reads = append(d.phase.reads, took)
		if a.Status != http.StatusOK && a.Status != http.StatusNotFound {
			d.phase.Refused++
		}
	}
	d.mu.Unlock()
	switch a.Status {
	case http.StatusOK, http.StatusNotFound:
		value, err := valueOf(a)
		if err != nil {
			d.found(ctx, contract, e, "%v", err)
			return nil
		}
		d.judge(ctx, e, oldest, value, a.Status == http.StatusOK, contract)
	default:
		if there && known {
			d.found(ctx, contract, e, "the daemon has acknowledged the entry's value, and answered a read of it with %d: %s", a.Status, detail(a.Body))
		}
	}
	return nil
}

// valueOf is the value in the answer to a GET.
func valueOf(a *Answer) (string, error) {
	if a.Status != http.StatusOK {
		return "", nil
	}
	var doc struct{ Value *string }
	if err := json.Unmarshal(a.Body, &doc); err != nil || doc.Value == nil {
		return "", fmt.Errorf("a read was answered with 200 and no value: %.100q", a.Body)
	}
	return *doc.Value, nil
}

// judge compares what a reader was shown with what may be true.
func (d *drill) judge(ctx context.Context, e *entry, oldest int, value string, found bool, contract int) {
	if err := e.Show(oldest, value, found); err != nil {
		d.found(ctx, contract, e, "a read through the daemon %v", err)
	}
}

// readAll reads every entry after a crash: what was acknowledged is there.
func (d *drill) readAll(ctx context.Context) error {
	for _, e := range d.entries {
		if err := d.read(ctx, e, false); err != nil {
			return err
		}
	}
	return nil
}

// readStranger reads an entry that the daemon cannot know while upstream fails. The daemon may
// tell its value, or that it does not know; it must not say that there is none.
func (d *drill) readStranger(ctx context.Context, namespace string) error {
	e := newEntry(namespace, strangersKey)
	a, err := d.ask(ctx, http.MethodGet, e.Path(), nil)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.phase.Reads++
	if a.Status == http.StatusServiceUnavailable {
		d.phase.Refused++
	}
	d.mu.Unlock()
	value, err := valueOf(a)
	switch {
	case err == nil && a.Status == http.StatusOK && value == strangersValue:
	case a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "":
	case a.Status == http.StatusTooManyRequests: // upstream's own word
	default:
		d.found(ctx, 9, e, "upstream holds the entry and the daemon could not know that, but it answered a read with %d: %.100q", a.Status, a.Body)
	}
	return nil
}

// list compares a listing with the entries; nobody writes meanwhile.
func (d *drill) list(ctx context.Context) error {
	a, err := d.ask(ctx, http.MethodGet, "/memory/"+namespace+"?limit=1000", nil)
	if err != nil {
		return err
	}
	var doc struct{ Keys []struct{ Key string } }
	if a.Status != http.StatusOK {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.phase.Refused++
		return nil
	}
	if err := json.Unmarshal(a.Body, &doc); err != nil {
		d.found(ctx, 10, newEntry(namespace, ""), "a listing cannot be read: %v", err)
		return nil
	}
	shown := make(map[string]bool, len(doc.Keys))
	for _, k := range doc.Keys {
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
