package record

import (
	"encoding/binary"
	"fmt"
)

// Totals is the state record: it counts the records that the store must hold.
type Totals struct {
	Seq          uint64 // highest sequence number given out
	Pending      uint64 // pending records
	PendingBytes int64  // sum of their sizes
	Sum          uint64 // sum of their checksums
	Dead         uint64 // dead letters
	DeadBytes    int64
	Batches      uint64 // batches that rewrote this record
}

// Add counts a pending record.
func (t *Totals) Add(id ID, v *Pending) {
	t.Pending++
	t.PendingBytes += v.Size(id)
	t.Sum += uint64(v.Sum)
}

// Remove subtracts a pending record from the count.
func (t *Totals) Remove(id ID, v *Pending) {
	t.Pending--
	t.PendingBytes -= v.Size(id)
	t.Sum -= uint64(v.Sum)
}

// AddDead counts a dead letter.
func (t *Totals) AddDead(l *Dead) {
	t.Dead++
	t.DeadBytes += l.Size()
}

// RemoveDead subtracts a dead letter from the count.
func (t *Totals) RemoveDead(l *Dead) {
	t.Dead--
	t.DeadBytes -= l.Size()
}

// Compare returns [ErrCorrupt] if the records that a scan found do not match the state record.
func (t *Totals) Compare(found Totals) error {
	if found.Pending != t.Pending || found.PendingBytes != t.PendingBytes || found.Sum != t.Sum {
		return fmt.Errorf("%w: of the pending writes it holds %d (%d bytes), and %d (%d bytes) were acknowledged",
			ErrCorrupt, found.Pending, found.PendingBytes, t.Pending, t.PendingBytes)
	}
	if found.Dead != t.Dead || found.DeadBytes != t.DeadBytes {
		return fmt.Errorf("%w: of the dead letters it holds %d (%d bytes), and there were %d (%d bytes)",
			ErrCorrupt, found.Dead, found.DeadBytes, t.Dead, t.DeadBytes)
	}
	if found.Seq > t.Seq {
		return fmt.Errorf("%w: it holds write %d, and the last one acknowledged is %d", ErrCorrupt, found.Seq, t.Seq)
	}
	return nil
}

// EncodeTotals returns the value of the state record.
func EncodeTotals(t *Totals) []byte {
	dst := make([]byte, 0, 6*binary.MaxVarintLen64+8+sumSize)
	dst = binary.AppendUvarint(dst, t.Seq)
	dst = binary.AppendUvarint(dst, t.Pending)
	dst = binary.AppendUvarint(dst, uint64(t.PendingBytes))
	dst = binary.LittleEndian.AppendUint64(dst, t.Sum)
	dst = binary.AppendUvarint(dst, t.Dead)
	dst = binary.AppendUvarint(dst, uint64(t.DeadBytes))
	dst = binary.AppendUvarint(dst, t.Batches)
	return Seal(StateKey, dst)
}

// DecodeTotals decodes the body of the state record.
func DecodeTotals(body []byte) (Totals, error) {
	d := decoder{rest: body}
	var t Totals
	t.Seq, t.Pending, t.PendingBytes = d.uvarint(), d.uvarint(), int64(d.uvarint())
	t.Sum = d.uint64()
	t.Dead, t.DeadBytes = d.uvarint(), int64(d.uvarint())
	t.Batches = d.uvarint()
	if len(d.rest) > 0 { // an older botwired counted the bytes of conflicts among those of the dead letters
		d.bad = d.uvarint() == 0 || d.bad
	}
	if d.bad || len(d.rest) != 0 {
		return Totals{}, fmt.Errorf("%w: state record does not parse", ErrCorrupt)
	}
	return t, nil
}
