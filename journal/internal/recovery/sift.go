package recovery

import (
	"cmp"
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
	lacks          map[*record.Kind]bool // the kinds of which some records cannot be read
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
	s := &sifter{valueless: make(map[uint64]share), lacks: from.lacks()}
	err := from.each(func(key, value []byte) error { s.take(key, value); return nil })
	for _, lost := range s.valueless {
		s.totals.Pending--
		s.totals.PendingBytes -= lost.bytes
		s.totals.Sum -= uint64(lost.sum)
		s.counts.Pending--
		s.damagedPending++
	}
	if err == nil && len(s.valueless) > 0 {
		err = from.each(func(key, _ []byte) error { s.nameValueless(key); return nil })
	}
	return s, err
}

// lacksHistory reports whether a version cannot be read, or what is known of versions that are not there.
func (s *sifter) lacksHistory() bool {
	return s.lacks[versionKind] || s.lacks[lossKind] || s.lacks[retentionKind]
}

// nameValueless names a pending write without its version.
func (s *sifter) nameValueless(key []byte) {
	if record.KindOf(key) != pendingKind {
		return
	}
	id, seq, err := record.ParseVersionKey(key)
	if _, lost := s.valueless[hashOf(record.VersionKey(id, seq))]; err == nil && lost {
		s.name(key)
	}
}

// hashSeed makes the hashes of one process comparable.
var hashSeed = maphash.MakeSeed()

func hashOf(key []byte) uint64 { return maphash.Bytes(hashSeed, key) }

// take checks a record. It returns the record's kind, and whether the record is intact.
func (s *sifter) take(key, value []byte) (kind *record.Kind, ok bool) {
	kind = record.KindOf(key)
	err := record.ErrCorrupt
	if kind != nil {
		err = s.add(kind, key, value)
	}
	if err == nil {
		s.records++
		return kind, true
	}
	s.damage = cmp.Or(s.damage, err)
	switch kind {
	case nil, deadKind:
		s.name(key)
	case pendingKind:
		s.name(key)
		s.damagedPending++
	case versionKind:
		if s.damagedVersions == nil {
			s.damagedVersions = make(map[uint64]bool)
		}
		s.damagedVersions[hashOf(key)] = true
	}
	if s.lacks != nil && kind != nil {
		s.lacks[kind] = true
	}
	return kind, false
}

// lacksCopies reports whether a copy, a listing or a version cannot be read.
func (s *sifter) lacksCopies() bool {
	for kind := range s.lacks {
		if kind.Class == record.Copied || kind == versionKind {
			return true
		}
	}
	return false
}

func (s *sifter) name(key []byte) {
	if len(s.damaged) < namedAtMost {
		s.damaged = append(s.damaged, record.NameOf(key))
	} else {
		s.unnamed++
	}
}

func (s *sifter) damagedNames() []string {
	if s.unnamed == 0 {
		return s.damaged
	}
	return append(s.damaged, fmt.Sprintf("and %d more", s.unnamed))
}

// add counts a record that passes its checks. It raises the highest sequence number to those that the record names, so that
// no other write gets them.
func (s *sifter) add(kind *record.Kind, key, value []byte) error {
	body, err := record.Unseal(key, value)
	if err != nil {
		return err
	}
	seq, err := kind.Check(key, body)
	if err != nil {
		return err
	}
	s.totals.Seq = max(s.totals.Seq, seq)
	switch kind.Prefix {
	case record.PendingPrefix:
		id, v, err := record.ReadPending(key, body, record.Sum(value))
		if err != nil {
			return err
		}
		s.totals.Add(id, &v)
		s.counts.Pending++
		if s.valueless != nil {
			s.valueless[hashOf(record.VersionKey(id, seq))] = share{v.Size(id), v.Sum}
		}
	case record.DeadPrefix:
		l, err := record.DecodeDead(seq, body)
		if err != nil {
			return err
		}
		s.totals.AddDead(&l)
		s.counts.DeadLetters++
	case record.VersionPrefix:
		s.counts.Versions++
		delete(s.valueless, hashOf(key))
	case record.ReceiptPrefix:
		if _, of, _ := record.ParseReceiptKey(key); of != 0 { // a named request is none
			s.counts.Receipts++
		}
	case record.SettledPrefix:
		s.counts.Settled++
	case record.LeftPrefix:
		s.counts.Left++
	case record.HeaderPrefix:
		s.counts.Listings++
	}
	return nil
}
