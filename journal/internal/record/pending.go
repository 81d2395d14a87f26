package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Pending is a pending write without its value, as the index keeps it.
type Pending struct {
	Seq         uint64
	UpdatedAt   float64 // Unix seconds
	WrittenAt   float64 // Unix seconds: when the caller wrote, by the wall clock at that time; never raised
	Since       float64 // Unix seconds: when the entry began to wait
	CreatedAt   float64 // Unix seconds: when the entry was first put, or first put after a delete
	Bytes       int32   // length of the value in UTF-8
	ListBytes   int32   // the size that a listing gives
	Sum         uint32  // the record's checksum, which the state record adds up
	Op          Op
	AfterDelete bool // a pending delete came before it: the settled copy is of an older entry
	LosesTies   bool // a copy that gives way to another host's state, and is not lost then
	Fenced      bool // compare it with upstream before sending it, in any case
	Conditional bool // it may replace only the state in its record's Base
}

// Base is a state that upstream holds, as far as the journal knows.
type Base struct {
	Known   bool // if false, ignore the other fields except Listed
	Present bool
	Content Content // a delete's content if the entry is absent
	Origin  Origin  // only of a present entry
	// UpdatedAt is the time of the entry's copy in Unix seconds; 0 if the entry is absent.
	UpdatedAt float64
	MadeAt    float64 // of the copy: see [Observation]
	// Listed says that a listing, or a copy that is gone, shows that the entry was there. It is not stored.
	Listed bool
}

// Overhead is the number of bytes that the state record counts for a pending write or a dead letter on
// top of its namespace, key and value. It is part of the format.
const Overhead = 64

// Size returns the bytes that the state record counts for the write.
func (v *Pending) Size(id ID) int64 {
	return int64(Overhead + len(id.Namespace) + len(id.Key) + int(v.Bytes))
}

// The flags of a pending record.
const (
	flagAfterDelete = 1 << iota
	flagWrittenAt   // written_at follows, because it differs from updated_at
	flagLosesTies
	flagFenced
	flagApart       // the value's length follows, and the value is in a version record
	flagConditional // the base follows the value's length
	unknownFlags
)

func (v *Pending) flags() (flags byte) {
	if v.AfterDelete {
		flags |= flagAfterDelete
	}
	if v.hasWrittenAt() {
		flags |= flagWrittenAt
	}
	if v.LosesTies {
		flags |= flagLosesTies
	}
	if v.Fenced {
		flags |= flagFenced
	}
	if v.Conditional {
		flags |= flagConditional
	}
	return flags
}

// hasWrittenAt compares the bits, because the format stores the bits.
func (v *Pending) hasWrittenAt() bool {
	return math.Float64bits(v.WrittenAt) != math.Float64bits(v.UpdatedAt)
}

// appendWrite appends the fields of a write that come before its value or the value's length. apart is
// flagApart, or 0 for a dead letter.
func appendWrite(dst []byte, v *Pending, apart byte) []byte {
	dst = append(dst, byte(v.Op), v.flags()|apart)
	dst = appendFloat(dst, v.UpdatedAt)
	dst = appendFloat(dst, v.Since)
	dst = appendFloat(dst, v.CreatedAt)
	if v.hasWrittenAt() {
		dst = appendFloat(dst, v.WrittenAt)
	}
	return appendCount(dst, int(v.ListBytes))
}

// EncodePending appends the record of a pending write to dst, which is empty, and sets its checksum in v. over is
// the base of a conditional write, and otherwise not used.
func EncodePending(dst, key []byte, v *Pending, over *Base) []byte {
	dst = appendCount(appendWrite(dst, v, flagApart), int(v.Bytes))
	if v.Conditional {
		dst = appendBase(dst, over)
	}
	sealed := Seal(key, dst)
	v.Sum = Sum(sealed)
	return sealed
}

// ReadPending decodes the record of a pending write. body excludes the checksum. Errors: [ErrCorrupt].
func ReadPending(key, body []byte, sum uint32) (ID, Pending, error) {
	id, seq, err := ParsePendingKey(key)
	if err != nil {
		return ID{}, Pending{}, err
	}
	v, _, err := DecodePending(body)
	if err != nil {
		return ID{}, Pending{}, fmt.Errorf("%w (write %d to %s)", err, seq, id)
	}
	v.Seq, v.Sum = seq, sum
	return id, v, nil
}

// DecodePending decodes the body of a pending record; over is nil unless the write is conditional.
func DecodePending(body []byte) (v Pending, over *Base, err error) {
	d := decoder{rest: body}
	v = d.write(flagApart)
	v.Bytes = int32(d.count())
	if v.Conditional {
		over = d.base()
	}
	if d.bad || len(d.rest) != 0 {
		return Pending{}, nil, fmt.Errorf("%w: pending record does not parse", ErrCorrupt)
	}
	return v, over, nil
}

// The flags of a base.
const (
	flagKnown = 1 << iota
	flagPresent
	unknownBaseFlags
)

func appendBase(dst []byte, b *Base) []byte {
	var flags byte
	if b.Known {
		flags |= flagKnown
	}
	if b.Present {
		flags |= flagPresent
	}
	dst = append(append(dst, flags, byte(b.Content.Op)), b.Content.Sum[:]...)
	dst = binary.AppendUvarint(dst, b.Origin.Seq)
	for _, at := range []float64{b.Origin.At, b.Origin.After, b.UpdatedAt, b.MadeAt} {
		dst = appendFloat(dst, at)
	}
	return dst
}

func (d *decoder) base() *Base {
	flags := d.byte()
	b := &Base{Known: flags&flagKnown != 0, Present: flags&flagPresent != 0, Content: Content{Op: Op(d.byte())}}
	copy(b.Content.Sum[:], d.take(len(b.Content.Sum)))
	b.Origin.Seq = d.uvarint()
	for _, at := range []*float64{&b.Origin.At, &b.Origin.After, &b.UpdatedAt, &b.MadeAt} {
		*at = d.float()
	}
	d.bad = d.bad || flags >= unknownBaseFlags
	return b
}

// write decodes what appendWrite appends.
func (d *decoder) write(apart byte) Pending {
	v := Pending{Op: Op(d.byte())}
	flags := d.byte()
	v.AfterDelete, v.LosesTies, v.Fenced = flags&flagAfterDelete != 0, flags&flagLosesTies != 0, flags&flagFenced != 0
	v.Conditional = flags&flagConditional != 0
	v.UpdatedAt, v.Since, v.CreatedAt = d.float(), d.float(), d.float()
	if v.WrittenAt = v.UpdatedAt; flags&flagWrittenAt != 0 {
		v.WrittenAt = d.float()
	}
	v.ListBytes = int32(d.count())
	d.bad = d.bad || flags >= unknownFlags || flags&flagApart != apart || v.Conditional && apart == 0 || (v.Op != Put && v.Op != Delete)
	return v
}
