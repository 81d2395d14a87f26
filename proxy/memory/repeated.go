package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// A caller that gets no answer to a write repeats it, and cannot know what the first request has done. It
// gives both the same Idempotency-Key. The journal keeps that name with the write, or with its refusal by upstream or by
// the entry's state. So the repetition gets the first answer, also after a crash, and whoever has written since
// (contract 5).

var errReused = wire.Detail(statusUnprocessable,
	"this Idempotency-Key was that of another write to the entry: a repetition has the same method, path and body, and another write another key")

// once carries out a named request, unless it repeats one that has made a write, or that the entry's state or upstream has
// refused: then it answers as that one was answered. Requests with one name take turns, so a repetition waits for the
// outcome of the first.
func (m *Memory) once(
	ctx context.Context, q Request, more string, carryOut func(context.Context, *Request) (Result, error),
) (Result, error) {
	q.named = requestOf(&q, more)
	endTurn, err := m.turns.await(ctx, journal.ID{Namespace: q.ID.Namespace, Key: q.ID.Key + "\n" + q.Name}) // no key has a line end
	if err != nil {
		return Result{}, err
	}
	defer endTurn()
	made, seq, err := m.journal.Receipts.Request(q.named.Name)
	var r Result
	switch {
	case err != nil:
		return r, err
	case made.Op == 0: // guard 5.16
		r, err = carryOut(ctx, &q)
	case made.Content != q.named.Content: // guard 5.17
		return r, errReused
	case made.Refused != 0 && seq == 0:
		return r, refusalOf(&made)
	default:
		r, err = m.again(ctx, &q, &made, seq, q.given() || more != "")
	}
	var said Answered
	switch {
	case r.seq != 0 && errors.As(err, &said): // guard 5.46
		status, body := said.Answer()
		return r, m.keepRefusal(&q, r.seq, status, body, err)
	case r.seq == 0 && isOfState(&q, err): // guard 5.25
		refusal, _ := errors.AsType[*wire.Refusal](err)
		return r, m.keepRefusal(&q, 0, refusal.Status, refusal.Body, err)
	}
	return r, err
}

func refusalOf(made *journal.Request) *wire.Refusal {
	return &wire.Refusal{Status: made.Refused, Body: []byte(made.Answer)}
}

// isOfState reports whether the entry's state was the reason for a refusal: a repetition must not write to a state that
// others have made since. Any other error says nothing about the state, and a repetition is another attempt.
func isOfState(q *Request, err error) bool {
	refusal, ok := errors.AsType[*wire.Refusal](err)
	return isUnmet(err) || ok && refusal.Status == statusNotFound && q.Verb == DeleteEntry
}

// keepRefusal keeps how a request was refused, before its caller hears of it, and the number of the write that it has
// made. It returns the refusal, or why it cannot be kept.
func (m *Memory) keepRefusal(q *Request, seq uint64, status int, body []byte, refusal error) error {
	kept := *q.named
	kept.ID, kept.Op, kept.Refused, kept.Answer = q.ID, journal.Put, status, string(body)
	if q.Verb == DeleteEntry {
		kept.Op = journal.Delete
	}
	return cmp.Or(m.journal.Receipts.Refuse(&kept, seq), refusal)
}

// again answers the repetition of a request that has made the write with this number, conditionally or not.
func (m *Memory) again(ctx context.Context, q *Request, made *journal.Request, seq uint64, conditional bool) (Result, error) {
	q.release()
	r := Result{
		Status: statusOK, id: q.ID, op: made.Op, seq: seq, state: "pending",
		tagged: made.Op == journal.Put, applied: -1,
	}
	if q.Waits {
		r.awaited, r.applied = true, q.Wait
	}
	if made.Refused != 0 { // by upstream
		r.state = "dead"
		return answered(r, refusalOf(made))
	}
	r.shown = decodeShown(made.Answer)
	ended := false
	if receipt, err := m.journal.Receipts.Read(ctx, seq); err == nil {
		r.state = receipt.State.String()
		ended = receipt.State != journal.ReceiptPending && receipt.By == 0
	}
	confirms := m.confirms(q.ID.Namespace, q, conditional)
	switch {
	case confirms && ended: // guard 5.45
		return answered(m.ended(r, m.exact && conditional, conditional))
	case confirms:
		if !q.extend(m.patienceOf(q)) {
			return Result{}, ErrCrowded
		}
		return m.confirm(ctx, q, r, conditional)
	case q.Waits && r.state == "pending":
		r.state = m.await(ctx, q, &journal.Write{ID: q.ID, Seq: seq})
		r.applied = q.Wait
	}
	return r, nil
}

// requestOf returns what the journal keeps of a request. Of two different requests, more or the rest of q
// differs.
func requestOf(q *Request, more string) *journal.Request {
	var r journal.Request
	sum := sha256.New()
	writeAll := func(texts ...string) {
		for _, text := range texts {
			sum.Write(binary.AppendUvarint(nil, uint64(len(text))))
			sum.Write([]byte(text))
		}
	}
	writeAll(q.ID.Namespace, q.ID.Key, q.Name)
	copy(r.Name[:], sum.Sum(nil))
	writeAll(q.Verb.String(), q.Value, more)
	copy(r.Content[:], sum.Sum(nil))
	return &r
}

// shown is what the answer to a PUT shows of the value.
type shown struct {
	characters int
	sum        [tagSum]byte
}

func shownOf(w *journal.NewWrite) (s shown) {
	if w.Op == journal.Put {
		sum := sha256.Sum256([]byte(w.Value))
		s.characters = wire.CodePoints(w.Value)
		copy(s.sum[:], sum[:])
	}
	return s
}

func (s *shown) encoded() string {
	return string(binary.AppendUvarint(append([]byte(nil), s.sum[:]...), uint64(s.characters)))
}

func decodeShown(answer string) (s shown) {
	n, _ := binary.Uvarint([]byte(answer[copy(s.sum[:], answer):]))
	s.characters = int(n)
	return s
}
