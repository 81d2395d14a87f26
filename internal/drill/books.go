package drill

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/api"
)

// The states of a receipt.
const (
	statePending    = "pending"
	stateSettled    = "settled"
	stateSuperseded = "superseded"
	stateDead       = "dead"
)

const (
	// storyLength limits the receipts of a finding.
	storyLength = 8
	// chainLength limits how many writes may have superseded each other in a row.
	chainLength = 10_000
	// looksAtOnce limits how many receipts are requested in parallel.
	looksAtOnce = 8
	// waitSlice limits one wait for a receipt: the daemon waits at most a minute.
	waitSlice = 20 * time.Second
)

// receipt requests a receipt, and returns nil if there is none. With a wait, the daemon answers when
// the write is no longer pending.
func (d *drill) receipt(ctx context.Context, seq uint64, wait time.Duration) (*api.Receipt, error) {
	r := api.Request{Path: api.Surface("receipts", strconv.FormatUint(seq, 10))}
	if wait > 0 {
		r.Query = url.Values{"wait": {fmt.Sprintf("%dms", wait.Milliseconds())}}
	}
	for {
		receipt := &api.Receipt{}
		err := d.ask(ctx, false, func() error {
			_, err := d.opts.Daemon.Read(ctx, r, receipt)
			return err
		})
		switch {
		case err == nil:
			return receipt, nil
		case api.IsRefused(err, http.StatusNotFound):
			return nil, nil
		case api.IsRefused(err, http.StatusServiceUnavailable): // the daemon is still reading its journal
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return nil, err
			}
			continue
		}
		return nil, fmt.Errorf("receipt %d: %w", seq, err)
	}
}

// isPending reports whether the write's receipt says that it is pending.
func (a *ack) isPending() bool { return a.receipt != nil && a.receipt.State == statePending }

// lookAtAll requests the receipts of the acknowledged writes that were still pending, a few in
// parallel: each reads the disk.
func (d *drill) lookAtAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(looksAtOnce)
	for _, e := range d.entries {
		for _, a := range e.acks {
			if a.receipt != nil && !a.isPending() {
				continue
			}
			g.Go(func() (err error) {
				a.receipt, err = d.receipt(ctx, a.seq, 0)
				return err
			})
		}
	}
	return g.Wait()
}

// survey requests the receipts of all acknowledged writes while there are no new ones. It returns the
// pending ones, oldest first. It checks that upstream holds the writes whose receipts say settled.
func (d *drill) survey(ctx context.Context) (waiting []*ack, err error) {
	if err := d.lookAtAll(ctx); err != nil {
		return nil, err
	}
	for _, e := range d.entries {
		for _, a := range e.acks {
			if a.isPending() {
				waiting = append(waiting, a)
			}
		}
		if len(e.acks) == 0 {
			continue
		}
		if last := e.acks[len(e.acks)-1]; last.receipt != nil && last.receipt.State == stateSettled {
			if _, err := d.upstreamHolds(ctx, e, 13, "the receipt of write %d says settled, and upstream %v", last.number); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(waiting, func(a, b *ack) int { return a.at.Compare(b.at) })
	return waiting, nil
}

// upstreamHolds compares upstream with the last acknowledged write of an entry. The finding's text is
// formatted with args and the difference.
func (d *drill) upstreamHolds(ctx context.Context, e *entry, contract int, text string, args ...any) (holds bool, err error) {
	last := e.acks[len(e.acks)-1]
	value, found, err := d.opts.Rig.Read(ctx, e.Namespace, e.Key)
	if err != nil {
		return false, fmt.Errorf("upstream does not answer the drill: %w", err)
	}
	if wrong := e.Show(last.number, value, found); wrong != nil {
		d.found(ctx, contract, e, text, append(args, wrong)...)
		return false, nil
	}
	return true, nil
}

// recovery returns how long it takes until upstream has the first of the pending writes. It returns nil
// if it takes too long, or if none is pending.
func (d *drill) recovery(ctx context.Context, waiting []*ack) (*float64, error) {
	if len(waiting) == 0 {
		return nil, nil
	}
	began := time.Now()
	waits, cancel := context.WithTimeout(ctx, recoveryLimit)
	defer cancel()
	first := make(chan float64, len(waiting))
	var group sync.WaitGroup
	// Only the last write to an entry is sent.
	for _, e := range d.entries {
		if len(e.acks) == 0 || !e.acks[len(e.acks)-1].isPending() {
			continue
		}
		group.Go(func() {
			r, err := d.receipt(waits, e.acks[len(e.acks)-1].seq, recoveryLimit)
			if err == nil && r != nil && r.State != statePending {
				first <- time.Since(began).Seconds()
				cancel()
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case seconds := <-first:
		return &seconds, nil
	default:
		return nil, nil
	}
}

// settle waits until every entry's last write is no longer pending. There are no more faults.
func (d *drill) settle(ctx context.Context) error {
	d.tell("upstream is well again, and the drill waits for what is pending")
	began := time.Now()
	end := began.Add(d.opts.SettleWithin)
	for _, e := range d.entries {
		for len(e.acks) > 0 {
			left := min(time.Until(end), waitSlice)
			r, err := d.receipt(ctx, e.acks[len(e.acks)-1].seq, max(time.Millisecond, left))
			if err != nil {
				return err
			}
			if r == nil || r.State != statePending || left <= 0 {
				break
			}
		}
	}
	d.audit.Settling = time.Since(began).Seconds()
	return nil
}

// closeBooks determines the outcome of every acknowledged write.
func (d *drill) closeBooks(ctx context.Context) error {
	if _, err := d.survey(ctx); err != nil {
		return err
	}
	b := &d.audit.Books
	for _, e := range d.entries {
		for _, a := range e.acks {
			b.Acknowledged++
			r := a.receipt
			switch {
			case r == nil:
				b.Unaccounted++
				d.found(ctx, 1, e, "the daemon acknowledged write %d (seq %d, %s) and has no receipt for it", a.number, a.seq, a.phase)
			case r.Seq != a.seq || r.Namespace != e.Namespace || r.Key != e.Key || r.Op != a.op:
				b.Unaccounted++
				d.found(ctx, 13, e, "the receipt of seq %d (%s) is about another write: %s %s/%s", a.seq, a.op, r.Op, r.Namespace, r.Key)
			case r.State == statePending:
				b.Pending++
				d.found(ctx, 18, e, "write %d (seq %d, %s) is still pending %.0f s after everything was well again", a.number, a.seq, a.phase, d.audit.Settling)
			case r.State == stateSettled:
				b.Settled++
			case r.State == stateDead:
				b.Dead++
				d.found(ctx, 15, e, "write %d (seq %d, %s) is a dead letter, and upstream has refused nothing for good: %s", a.number, a.seq, a.phase, r.Reason)
			case r.State == stateSuperseded:
				b.Superseded++
				if err := d.followed(ctx, e, a); err != nil {
					return err
				}
			default:
				b.Unaccounted++
				d.found(ctx, 13, e, "the receipt of seq %d has an unknown state: %q", a.seq, r.State)
			}
		}
	}
	return nil
}

// followed checks that a later write to the entry replaced a superseded one.
func (d *drill) followed(ctx context.Context, e *entry, a *ack) error {
	r := a.receipt
	for range chainLength {
		switch {
		case r.By == nil:
			d.found(ctx, 17, e, "write %d (seq %d, %s) was superseded by another host's, and the drill has the namespace for itself", a.number, a.seq, a.phase)
			return nil
		case *r.By <= r.Seq:
			d.found(ctx, 12, e, "seq %d was superseded by an earlier write, %d", r.Seq, *r.By)
			return nil
		}
		next, err := d.receipt(ctx, *r.By, 0)
		if err != nil {
			return err
		}
		if next == nil || next.Namespace != e.Namespace || next.Key != e.Key {
			d.found(ctx, 13, e, "seq %d was superseded by %d, which is no write to the entry", r.Seq, *r.By)
			return nil
		}
		if next.State != stateSuperseded {
			return nil // it is counted itself, or was unanswered
		}
		r = next
	}
	d.found(ctx, 13, e, "the writes that have superseded seq %d never end", a.seq)
	return nil
}

// compare compares upstream and the daemon with the last acknowledged writes.
func (d *drill) compare(ctx context.Context) error {
	for _, e := range d.entries {
		if len(e.acks) == 0 {
			continue
		}
		d.audit.Compared++
		holds, err := d.upstreamHolds(ctx, e, 18, "in the end, upstream %v")
		if err != nil {
			return err
		}
		if !holds {
			d.audit.Different++
		}
		if err := d.readFor(ctx, e, 7); err != nil {
			return err
		}
	}
	return nil
}

// story returns the receipts of the last writes to an entry, as far as the daemon answers.
func (d *drill) story(ctx context.Context, e *entry) []api.Receipt {
	d.mu.Lock()
	acks := slices.Clone(e.acks[max(0, len(e.acks)-storyLength):])
	d.mu.Unlock()
	told := []api.Receipt{}
	for _, a := range acks {
		r, err := d.receipt(ctx, a.seq, 0)
		switch {
		case err != nil:
			return told
		case r == nil:
			r = &api.Receipt{Seq: a.seq, Namespace: e.Namespace, Key: e.Key, Op: a.op, State: "none", WrittenAt: unix(a.at), Reason: "the daemon has no receipt"}
		}
		told = append(told, *r)
	}
	return told
}
