package surface

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const maxReceiptWait = time.Minute

func newReceiptDocument(r *journal.Receipt, author string) api.Receipt {
	doc := api.Receipt{
		Seq: r.Seq, Namespace: r.Namespace, Key: r.Key, Op: r.Op.String(), Author: author,
		State: r.State.String(), WrittenAt: r.WrittenAt, Reason: r.Reason,
	}
	if r.State != journal.ReceiptPending {
		doc.SettledAt = &r.SettledAt
	}
	if r.By != 0 {
		doc.By = &r.By
	}
	return doc
}

// receipt answers with the state of the write with a sequence number. With the parameter wait it waits, for
// at most that time, until the write is no longer pending.
func (s *Surface) receipt(w http.ResponseWriter, r *http.Request, number string) error {
	p := Require(r, http.MethodGet, "wait")
	wait := p.duration("wait", 0, maxReceiptWait, "1m")
	if p.Err != nil {
		return p.Err
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return wire.Detail(http.StatusNotFound, fmt.Sprintf("no such write: %.40q: expected the seq of a Botwired-Write header", number))
	}
	s.awaitIndex(r.Context())
	receipt, err := s.journal.Receipts.Read(r.Context(), seq)
	if err == nil && receipt.State == journal.ReceiptPending && wait > 0 {
		ctx, end, refusal := s.within(w, r, p, wait)
		if refusal != nil {
			return refusal
		}
		defer end()
		if s.journal.Receipts.Await(ctx, &receipt) {
			receipt, err = s.journal.Receipts.Read(r.Context(), seq)
		}
	}
	if err != nil {
		return noReceipt(err)
	}
	author, err := s.journal.History.Author(receipt.ID, seq)
	if err != nil {
		return err
	}
	return writeDocument(w, http.StatusOK, newReceiptDocument(&receipt, author))
}

func (s *Surface) receipts(w http.ResponseWriter, r *http.Request, p *Parameters) error {
	limit := p.limit()
	if p.Err != nil {
		return p.Err
	}
	s.awaitIndex(r.Context())
	newest, err := s.journal.Receipts.Newest(limit)
	if err != nil {
		return err
	}
	docs := make([]api.Receipt, len(newest))
	for i := range newest {
		author, err := s.journal.History.Author(newest[i].ID, newest[i].Seq)
		if err != nil {
			return err
		}
		docs[i] = newReceiptDocument(&newest[i], author)
	}
	return writeDocument(w, http.StatusOK, api.Receipts{Receipts: docs})
}

func noReceipt(err error) error {
	switch {
	case errors.Is(err, journal.ErrNoWrite):
		return wire.Detail(http.StatusNotFound, err.Error())
	case errors.Is(err, journal.ErrNoReceipt):
		return wire.Detail(http.StatusNotFound, fmt.Sprintf("%v: botwired keeps one for at least %d hours after its write has ended, "+
			"but no more than the last %d; a purge, and a disk that is nearly full or damaged, take them earlier", err, journal.ReceiptsFor/time.Hour, journal.ReceiptsKept))
	case errors.Is(err, journal.ErrRebuilding):
		return wire.Unavailable(time.Second, "not known yet: "+err.Error())
	}
	return err
}
