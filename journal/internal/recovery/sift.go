package recovery

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"

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
	damage  error // the first damage found
	damaged []string
	unnamed int // damaged records beyond namedAtMost

	damagedPending int
	// valueless are the pending writes whose version was not found, by the hash of the version's key. In
	// key order, a version follows all pending writes. If nil, all count.
	valueless map[uint64]share
	// damagedVersions has the hashes of the keys of damaged versions.
	damagedVersions map[uint64]bool
}

// share is what a pending write adds to the totals.
type share struct {
	bytes int64
	sum   uint32
}

// sift counts the intact records of a source. A pending write without its version counts as damaged.
func sift(from source) (*sifter, error) {
	s := &sifter{valueless: make(map[uint64]share)}
	err := from.each(func(key, value []byte) error { s.take(key, value); return nil })
	for _, lost := range s.valueless {
		s.totals.Pending--
		s.totals.PendingBytes -= lost.bytes
		s.totals.Sum -= uint64(lost.sum)
		s.counts.Pending--
		s.damagedPending++
	}
	return s, err
}

// hashSeed makes the hashes of one process comparable.
var hashSeed = maphash.MakeSeed()

func hashOf(key []byte) uint64 { return maphash.Bytes(hashSeed, key) }

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
	s.damage = cmp.Or(s.damage, err)
	switch kind {
	case record.PendingPrefix:
		s.damagedPending++
	case record.VersionPrefix:
		if s.damagedVersions == nil {
			s.damagedVersions = make(map[uint64]bool)
		}
		s.damagedVersions[hashOf(key)] = true
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
		if s.valueless != nil {
			s.valueless[hashOf(record.VersionKey(id, v.Seq))] = share{v.Size(id), v.Sum}
		}
	case record.VersionPrefix:
		return s.addVersion(key, body)
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
	if seq == 0 {
		_, seq, err = record.DecodeRequest(body)
		s.totals.Seq = max(s.totals.Seq, seq)
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

// addVersion raises the highest sequence number to that of a version.
func (s *sifter) addVersion(key, body []byte) error {
	_, seq, err := record.ParseVersionKey(key)
	if err != nil {
		return err
	}
	if _, err := record.DecodeVersion(body); err != nil {
		return err
	}
	s.totals.Seq = max(s.totals.Seq, seq)
	s.counts.Versions++
	delete(s.valueless, hashOf(key))
	return nil
}

func (s *sifter) addCopy(kind string, body []byte) (err error) {
	switch kind {
	case record.SettledPrefix:
		if _, _, _, err = record.DecodeSettled(body); err == nil {
			s.counts.Settled++
		}
	case record.NewestPrefix:
		_, _, _, err = record.DecodeSettled(body)
	case record.LeftPrefix:
		if _, err = record.DecodeLeft(body); err == nil {
			s.counts.Left++
		}
	case record.HeaderPrefix:
		if _, err = record.DecodeHeader(body); err == nil {
			s.counts.Listings++
		}
	case record.RowPrefix:
		_, err = record.DecodeRow("", body)
	case string(record.RetentionKey[:2]):
		_, _, err = record.DecodeRetention(body)
	case record.LossPrefix:
		_, err = record.DecodeLoss(body)
	case string(record.SeenKey):
	default:
		err = record.ErrCorrupt
	}
	return err
}

// nameOf names a record as people do.
func nameOf(key string) string {
	kind, name := key[:min(2, len(key))], key[min(2, len(key)):]
	id, seq, err := record.ParseVersionKey([]byte("v/" + name))
	switch {
	case kind == record.PendingPrefix && err == nil:
		return fmt.Sprintf("pending write %d to %s", seq, id)
	case kind == record.VersionPrefix && err == nil:
		return fmt.Sprintf("version %d of %s", seq, id)
	case kind == record.LossPrefix && err == nil:
		return fmt.Sprintf("the loss of version %d of %s", seq, id)
	case kind == record.DeadPrefix && len(name) == 8:
		return fmt.Sprint("dead letter ", binary.BigEndian.Uint64([]byte(name)))
	case kind == record.ReceiptPrefix && len(name) == 16:
		return fmt.Sprint("receipt of write ", binary.BigEndian.Uint64([]byte(name[8:])))
	}
	of, ok := map[string]string{
		record.LeftPrefix: "what was sent", record.SettledPrefix: "settled copy", record.NewestPrefix: "newest known time", record.HeaderPrefix: "listing", record.RowPrefix: "listing row",
	}[kind]
	if !ok {
		return fmt.Sprintf("record %q", key)
	}
	return of + " of " + name
}
