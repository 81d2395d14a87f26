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
	Apart       bool // the value is in a version record; before format 6, the pending record had it
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
	flagApart // the value's length follows, and no value
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
	if v.Apart {
		flags |= flagApart
	}
	return flags
}

// hasWrittenAt compares the bits, because the format stores the bits.
func (v *Version) hasWrittenAt() bool {
	return math.Float64bits(v.WrittenAt) != math.Float64bits(v.UpdatedAt)
}

// appendPending appends the fields of a pending write, without a value.
func appendPending(dst []byte, v *Version) []byte {
	dst = append(dst, byte(v.Op), v.flags())
	dst = appendFloat(dst, v.UpdatedAt)
	dst = appendFloat(dst, v.Since)
	dst = appendFloat(dst, v.CreatedAt)
	if v.hasWrittenAt() {
		dst = appendFloat(dst, v.WrittenAt)
	}
	dst = appendCount(dst, int(v.ListBytes))
	if v.Apart {
		dst = appendCount(dst, int(v.Bytes))
	}
	return dst
}

// EncodePending appends the record of a pending write whose value is apart to dst, which is empty, and
// sets its checksum in v.
func EncodePending(dst, key []byte, v *Version) []byte {
	sealed := Seal(key, appendPending(dst, v))
	v.Sum = Sum(sealed)
	return sealed
}

// ReadPending decodes the record of a pending write. body excludes the checksum. Errors: [ErrCorrupt].
func ReadPending(key, body []byte, sum uint32) (ID, Version, error) {
	id, seq, err := ParsePendingKey(key)
	if err != nil {
		return ID{}, Version{}, err
	}
	v, _, err := DecodePending(body)
	if err != nil {
		return ID{}, Version{}, fmt.Errorf("%w (write %d to %s)", err, seq, id)
	}
	v.Seq, v.Sum = seq, sum
	return id, v, nil
}

// DecodePending decodes the body of a pending record. The returned value is a slice of body, and empty if
// the value is apart.
func DecodePending(body []byte) (Version, []byte, error) {
	d := decoder{rest: body}
	v := Version{Op: Op(d.byte())}
	flags := d.byte()
	v.AfterDelete, v.LosesTies, v.Fenced = flags&flagAfterDelete != 0, flags&flagLosesTies != 0, flags&flagFenced != 0
	v.UpdatedAt, v.Since, v.CreatedAt = d.float(), d.float(), d.float()
	if v.WrittenAt = v.UpdatedAt; flags&flagWrittenAt != 0 {
		v.WrittenAt = d.float()
	}
	v.ListBytes = int32(d.count())
	if v.Apart = flags&flagApart != 0; v.Apart {
		v.Bytes = int32(d.count())
		d.bad = d.bad || len(d.rest) != 0
	} else {
		v.Bytes = int32(len(d.rest))
	}
	if d.bad || flags >= unknownFlags || (v.Op != Put && v.Op != Delete) {
		return Version{}, nil, fmt.Errorf("%w: pending record does not parse", ErrCorrupt)
	}
	return v, d.rest, nil
}
