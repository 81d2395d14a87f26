package recovery

import (
	"bytes"
	"fmt"

	"github.com/botwired/botwired/journal/internal/record"
)

// namedAtMost bounds how many damaged records a report names.
const namedAtMost = 1000

// sifter checks records and counts the intact ones. It decodes every kind, because the journal must be
// able to read each record that is kept.
type sifter struct {
	totals  record.Totals
	counts  Salvaged
	records int
	damaged []string
	unnamed int // damaged records beyond namedAtMost

	damagedPending int
}

// sift counts the intact records of a source.
func sift(from source) (*sifter, error) {
	s := new(sifter)
	return s, from.each(func(key, value []byte) error { s.take(key, value); return nil })
}

// take checks a record. It returns the record's kind, and whether the record is intact.
func (s *sifter) take(key, value []byte) (kind string, ok bool) {
	kind = string(key[:min(2, len(key))])
	body, err := record.Unseal(key, value)
	if err == nil {
		err = s.add(kind, key, body, value)
	}
	if err == nil {
		s.records++
		return kind, true
	}
	if kind == record.PendingPrefix {
		s.damagedPending++
	}
	if len(s.damaged) < namedAtMost {
		s.damaged = append(s.damaged, nameOf(string(key)))
	} else {
		s.unnamed++
	}
	return kind, false
}

func (s *sifter) damagedNames() []string {
	if s.unnamed == 0 {
		return s.damaged
	}
	return append(s.damaged, fmt.Sprintf("and %d more", s.unnamed))
}

func (s *sifter) add(kind string, key, body, value []byte) error {
	switch kind {
	case record.PendingPrefix:
		id, v, err := record.ReadPending(key, body, record.Sum(value))
		if err != nil {
			return err
		}
		s.totals.Add(id, &v)
		s.totals.Seq = max(s.totals.Seq, v.Seq)
		s.counts.Pending++
	case record.DeadPrefix:
		seq, err := record.ParseDeadKey(key)
		if err != nil {
			return err
		}
		l, err := record.DecodeDead(seq, body)
		if err != nil {
			return err
		}
		s.totals.AddDead(&l)
		s.totals.Seq = max(s.totals.Seq, seq)
		s.counts.DeadLetters++
	case record.ReceiptPrefix:
		return s.addReceipt(key, body)
	default:
		return s.addCopy(kind, body)
	}
	return nil
}

// addReceipt raises the highest sequence number to those in a receipt, so that no other write gets
// them.
func (s *sifter) addReceipt(key, body []byte) error {
	if bytes.Equal(key, record.GenerationsKey) {
		_, err := record.DecodeGenerations(body)
		return err
	}
	_, seq, err := record.ParseReceiptKey(key)
	if err != nil {
		return err
	}
	r, err := record.DecodeReceipt(seq, body)
	if err != nil {
		return err
	}
	s.totals.Seq = max(s.totals.Seq, seq, r.By)
	s.counts.Receipts++
	return nil
}

func (s *sifter) addCopy(kind string, body []byte) (err error) {
	switch kind {
	case record.SettledPrefix:
		if _, _, err = record.DecodeSettled(body); err == nil {
			s.counts.Settled++
		}
	case record.SentPrefix:
		if _, err = record.DecodeSent(body); err == nil {
			s.counts.SentMarks++
		}
	case record.HeaderPrefix:
		if _, err = record.DecodeHeader(body); err == nil {
			s.counts.Listings++
		}
	case record.RowPrefix:
		_, err = record.DecodeRow("", body)
	default:
		err = record.ErrCorrupt
	}
	return err
}

// nameOf describes a damaged record for a person.
func nameOf(key string) string {
	kinds := map[string]string{
		record.PendingPrefix: "pending write", record.SentPrefix: "sent mark of", record.SettledPrefix: "settled copy of",
		record.HeaderPrefix: "listing of", record.RowPrefix: "listing row of", record.DeadPrefix: "dead letter",
		record.ReceiptPrefix: "receipt of write",
	}
	kind, ok := kinds[key[:min(2, len(key))]]
	if !ok {
		return fmt.Sprintf("record %q", key)
	}
	if id, seq, err := record.ParsePendingKey([]byte(key)); err == nil && kind == kinds[record.PendingPrefix] {
		return fmt.Sprintf("pending write %d to %s", seq, id)
	}
	if seq, err := record.ParseDeadKey([]byte(key)); err == nil && kind == kinds[record.DeadPrefix] {
		return fmt.Sprintf("dead letter %d", seq)
	}
	if _, seq, err := record.ParseReceiptKey([]byte(key)); err == nil && kind == kinds[record.ReceiptPrefix] {
		return fmt.Sprintf("receipt of write %d", seq)
	}
	return fmt.Sprintf("%s %s", kind, key[2:])
}
