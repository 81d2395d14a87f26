package memory

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// A caller that gets no answer to a write repeats it, and cannot know what the first request has done. It
// gives both the same Idempotency-Key. The journal keeps that name with the write, or with the refusal that the
// entry's state was a reason for, so the repetition gets the first answer, also after a crash, and whoever has
// written since (contract 5).

var errReused = wire.Detail(statusUnprocessable,
	"this Idempotency-Key was that of another write to the entry: a repetition has the same method, path and body, and another write another key")

// once carries out a named request, unless it repeats one that has made a write, or that the entry's state has
// refused: then it answers as that one was answered. The requests with one name take turns, so a repetition waits for the outcome of the first.
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
	switch {
	case err != nil:
		return Result{}, err
	case made.Op == 0: // guard 5.16
		r, err := carryOut(ctx, &q)
		if r.seq == 0 { // no write was made
			err = m.keepRefusal(&q, err)
		}
		return r, err
	case made.Content != q.named.Content: // guard 5.17
		return Result{}, errReused
	case made.Refused != 0:
		return Result{}, &wire.Refusal{Status: made.Refused, Body: []byte(made.Answer)}
	}
	return m.again(ctx, &q, &made, seq, q.given() || more != "")
}

// keepRefusal keeps the name of a request that the entry's state has refused, before its caller hears of it: a
// repetition must not write to a state that others have made since. It returns the refusal, or why the
// name cannot be kept. Any other error says nothing about the state, and a repetition is another attempt.
func (m *Memory) keepRefusal(q *Request, err error) error {
	refusal, ok := errors.AsType[*wire.Refusal](err)
	absent := ok && refusal.Status == statusNotFound && q.Verb == DeleteEntry
	if !absent && !isUnmet(err) { // guard 5.25
		return err
	}
	kept := *q.named
	kept.ID, kept.Op, kept.Refused, kept.Answer = q.ID, journal.Put, refusal.Status, string(refusal.Body)
	if q.Verb == DeleteEntry {
		kept.Op = journal.Delete
	}
	if failed := m.journal.Receipts.Refuse(&kept); failed != nil {
		return failed
	}
	return err
}

// again answers the repetition of a request that has made the write with this number, conditionally or not.
func (m *Memory) again(ctx context.Context, q *Request, made *journal.Request, seq uint64, conditional bool) (Result, error) {
	q.release()
	r := Result{
		Status: statusOK, id: q.ID, op: made.Op, shown: decodeShown(made.Answer), seq: seq, state: "pending",
		tagged: made.Op == journal.Put, applied: -1,
	}
	ended := false
	if receipt, err := m.journal.Receipts.Read(ctx, seq); err == nil {
		r.state = receipt.State.String()
		ended = receipt.State != journal.ReceiptPending && receipt.By == 0
	}
	if q.Waits {
		r.awaited, r.applied = true, q.Wait
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
