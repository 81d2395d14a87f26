package drill

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/tasks"
)

// Audit is the result of a drill.
type Audit struct {
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"`
	Phases  []Phase `json:"phases"`

	// Acknowledged writes are settled, superseded, pending, dead or lost.
	Acknowledged int `json:"acknowledged"`
	Settled      int `json:"settled"`
	Superseded   int `json:"superseded"`
	Pending      int `json:"pending"`
	Dead         int `json:"dead"`
	Lost         int `json:"lost"` // without a receipt
	// Unanswered writes were cut off by the kill: they may or may not have been made.
	Unanswered int `json:"unanswered"`
	// Compared is how many entries were compared upstream with their last acknowledged write, and
	// Different is how many of them differed.
	Compared  int       `json:"compared"`
	Different int       `json:"different"`
	Findings  []Finding `json:"findings"`
	OK        bool      `json:"ok"` // there are no findings
}

// Phase is the audit of one phase.
type Phase struct {
	Name         string `json:"name"`
	Upstream     string `json:"upstream"`     // what happened to upstream, for people
	Acknowledged int    `json:"acknowledged"` // writes
	Reads        int    `json:"reads"`        // each was checked
	Pending      int    `json:"pending"`      // writes that upstream lacked at the end of the phase
}

// Finding is a breach of the contract that the drill has seen.
type Finding struct {
	// Contract is the broken point of the contract.
	Contract  int    `json:"contract"`
	Phase     string `json:"phase"`
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Text      string `json:"text"`
}

// The states of a receipt.
const (
	statePending    = "pending"
	stateSettled    = "settled"
	stateSuperseded = "superseded"
	stateDead       = "dead"
)

// waitSlice limits one wait for a receipt: the daemon waits at most a minute.
const waitSlice = 20 * time.Second

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
			_, err := d.daemon.Read(ctx, r, receipt)
			return err
		})
		switch {
		case err == nil:
			return receipt, nil
		case api.IsRefused(err, http.StatusNotFound):
			return nil, nil
		case !api.IsRefused(err, http.StatusServiceUnavailable): // the daemon is still reading its journal
			return nil, fmt.Errorf("receipt %d: %w", seq, err)
		}
		if err := tasks.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// survey counts the entries whose last acknowledged write is pending, and checks that upstream holds
// the settled ones. There are no writes meanwhile.
func (d *drill) survey(ctx context.Context) error {
	for _, e := range d.entries {
		if len(e.acks) == 0 {
			continue
		}
		last := e.acks[len(e.acks)-1]
		r, err := d.receipt(ctx, last.seq, 0)
		switch {
		case err != nil:
			return err
		case r == nil: // conclude reports it
		case r.State == statePending:
			d.count(&d.phase.Pending)
		case r.State == stateSettled:
			text := fmt.Sprintf("the receipt of write %d says settled", last.number)
			if _, err := d.upstreamHolds(ctx, e, 13, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// upstreamHolds compares upstream with the last acknowledged write of an entry. The finding's text
// begins with the given one.
func (d *drill) upstreamHolds(ctx context.Context, e *entry, contract int, text string) (holds bool, err error) {
	value, found, err := d.opts.Rig.Read(ctx, e.Namespace, e.Key)
	if err != nil {
		return false, fmt.Errorf("upstream does not answer the drill: %w", err)
	}
	wrong := e.Show(e.acks[len(e.acks)-1].number, value, found)
	if wrong != nil {
		d.found(contract, e, "%s, and upstream %v", text, wrong)
	}
	return wrong == nil, nil
}

// settle waits for a limited time until every entry's last write is no longer pending.
func (d *drill) settle(ctx context.Context, within time.Duration) error {
	end := time.Now().Add(within)
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
	return nil
}

// conclude counts the outcome of every acknowledged write, and compares upstream and the daemon with
// the last ones.
func (d *drill) conclude(ctx context.Context) error {
	for _, e := range d.entries {
		for _, a := range e.acks {
			if err := d.account(ctx, e, a); err != nil {
				return err
			}
		}
		if len(e.acks) == 0 {
			continue
		}
		d.audit.Compared++
		holds, err := d.upstreamHolds(ctx, e, 18, "the drill is over")
		if err != nil {
			return err
		}
		if !holds {
			d.audit.Different++
		}
		if err := d.read(ctx, e, 7); err != nil {
			return err
		}
	}
	return nil
}

// account counts an acknowledged write by its receipt.
func (d *drill) account(ctx context.Context, e *entry, a ack) error {
	d.audit.Acknowledged++
	r, err := d.receipt(ctx, a.seq, 0)
	if err != nil {
		return err
	}
	write := fmt.Sprintf("write %d (seq %d, %s, %s)", a.number, a.seq, a.op, a.phase)
	switch {
	case r == nil:
		d.audit.Lost++
		d.found(1, e, "the daemon acknowledged %s and has no receipt for it", write)
	case r.Seq != a.seq || r.Namespace != e.Namespace || r.Key != e.Key || r.Op != a.op:
		d.audit.Lost++
		d.found(13, e, "the receipt of %s is about another one: %d, %s %s/%s", write, r.Seq, r.Op, r.Namespace, r.Key)
	case r.State == statePending:
		d.audit.Pending++
		d.found(18, e, "%s is still pending %.0f minutes after everything was well again", write, settleLimit.Minutes())
	case r.State == stateSettled:
		d.audit.Settled++
	case r.State == stateDead:
		d.audit.Dead++
		d.found(15, e, "%s is a dead letter, and upstream has refused nothing for good: %s", write, r.Reason)
	case r.State == stateSuperseded:
		d.audit.Superseded++
		return d.followed(ctx, e, write, r)
	default:
		d.audit.Lost++
		d.found(13, e, "the receipt of %s has an unknown state: %q", write, r.State)
	}
	return nil
}

// followed checks that a later write to the entry replaced a superseded one.
func (d *drill) followed(ctx context.Context, e *entry, write string, r *api.Receipt) error {
	switch {
	case r.By == nil:
		d.found(17, e, "%s was superseded by another host's, and the drill has the namespace for itself", write)
		return nil
	case *r.By <= r.Seq:
		d.found(12, e, "%s was superseded by an earlier one, seq %d", write, *r.By)
		return nil
	}
	next, err := d.receipt(ctx, *r.By, 0)
	if err == nil && (next == nil || next.Namespace != e.Namespace || next.Key != e.Key) {
		d.found(13, e, "%s was superseded by seq %d, which is no write to the entry", write, *r.By)
	}
	return err
}
