package record

import (
	"encoding/binary"
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
	unknownFlags
)

// PendingFields is the maximum size of a pending record without its value.
const PendingFields = 1 + 1 + 4*8 + binary.MaxVarintLen32 + sumSize

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

// AppendPendingFields appends the fields of a pending record that come before its value.
func AppendPendingFields(dst []byte, v *Version) []byte {
	dst = append(dst, byte(v.Op), v.flags())
	dst = appendFloat(dst, v.UpdatedAt)
	dst = appendFloat(dst, v.Since)
	dst = appendFloat(dst, v.CreatedAt)
	if v.hasWrittenAt() {
		dst = appendFloat(dst, v.WrittenAt)
	}
	return binary.AppendUvarint(dst, uint64(v.ListBytes))
}

// PendingSize returns the length of the record that consists of these fields and value.
func PendingSize(fields []byte, value string) int { return len(fields) + len(value) + sumSize }

// EncodePending writes the record into dst, which must have room for it, and its checksum into v.
func EncodePending(dst, key, fields []byte, v *Version, value string) {
	v.Sum = Sum(Seal(key, append(append(dst[:0], fields...), value...)))
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

// DecodePending decodes the body of a pending record. The returned value is a slice of body.
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
	v.Bytes = int32(len(d.rest))
	if d.bad || flags >= unknownFlags || (v.Op != Put && v.Op != Delete) {
		return Version{}, nil, fmt.Errorf("%w: pending record does not parse", ErrCorrupt)
	}
	return v, d.rest, nil
}
