package record

import (
	"fmt"
	"math"
)

// Version is a pending write without its value, as the index keeps it.
type Version struct {
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
	LosesTies   bool // a copy that gives way to another host's state without leaving a dead letter
	Fenced      bool // compare it with upstream before sending it, regardless of the settings
}

// Overhead is the number of bytes that the state record counts for a pending write or a dead letter on
// top of its namespace, key and value. It is part of the format.
const Overhead = 64

// Size returns the bytes that the state record counts for the write.
func (v *Version) Size(id ID) int64 {
	return int64(Overhead + len(id.Namespace) + len(id.Key) + int(v.Bytes))
}

// The flags of a pending record.
const (
	flagAfterDelete = 1 << iota
	flagWrittenAt   // written_at follows, because it differs from updated_at
	flagLosesTies
	flagFenced
	flagApart // the value's length follows, and the value is in a version record
	unknownFlags
)

func (v *Version) flags() (flags byte) {
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
	return flags
}

// hasWrittenAt compares the bits, because the format stores the bits.
func (v *Version) hasWrittenAt() bool {
	return math.Float64bits(v.WrittenAt) != math.Float64bits(v.UpdatedAt)
}

// appendWrite appends the fields of a write that come before its value or the value's length. apart is
// flagApart, or 0 for a dead letter.
func appendWrite(dst []byte, v *Version, apart byte) []byte {
	dst = append(dst, byte(v.Op), v.flags()|apart)
	dst = appendFloat(dst, v.UpdatedAt)
	dst = appendFloat(dst, v.Since)
	dst = appendFloat(dst, v.CreatedAt)
	if v.hasWrittenAt() {
		dst = appendFloat(dst, v.WrittenAt)
	}
	return appendCount(dst, int(v.ListBytes))
}

// EncodePending appends the record of a pending write to dst, which is empty, and sets its checksum in v.
func EncodePending(dst, key []byte, v *Version) []byte {
	sealed := Seal(key, appendCount(appendWrite(dst, v, flagApart), int(v.Bytes)))
	v.Sum = Sum(sealed)
	return sealed
}

// ReadPending decodes the record of a pending write. body excludes the checksum. Errors: [ErrCorrupt].
func ReadPending(key, body []byte, sum uint32) (ID, Version, error) {
	id, seq, err := ParsePendingKey(key)
	if err != nil {
		return ID{}, Version{}, err
	}
	v, err := DecodePending(body)
	if err != nil {
		return ID{}, Version{}, fmt.Errorf("%w (write %d to %s)", err, seq, id)
	}
	v.Seq, v.Sum = seq, sum
	return id, v, nil
}

// DecodePending decodes the body of a pending record.
func DecodePending(body []byte) (Version, error) {
	d := decoder{rest: body}
	v := d.write(flagApart)
	if v.Bytes = int32(d.count()); d.bad || len(d.rest) != 0 {
		return Version{}, fmt.Errorf("%w: pending record does not parse", ErrCorrupt)
	}
	return v, nil
}

// write decodes what appendWrite appends.
func (d *decoder) write(apart byte) Version {
	v := Version{Op: Op(d.byte())}
	flags := d.byte()
	v.AfterDelete, v.LosesTies, v.Fenced = flags&flagAfterDelete != 0, flags&flagLosesTies != 0, flags&flagFenced != 0
	v.UpdatedAt, v.Since, v.CreatedAt = d.float(), d.float(), d.float()
	if v.WrittenAt = v.UpdatedAt; flags&flagWrittenAt != 0 {
		v.WrittenAt = d.float()
	}
	v.ListBytes = int32(d.count())
	d.bad = d.bad || flags >= unknownFlags || flags&flagApart != apart || (v.Op != Put && v.Op != Delete)
	return v
}
