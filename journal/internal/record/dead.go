package record

import (
	"encoding/binary"
	"fmt"
)

// Dead is a dead letter: an acknowledged write that upstream refused for good.
type Dead struct {
	ID
	Version
	Value     string
	Status    int     // with which upstream refused the write; the journal does not interpret it
	Error     string  // upstream's reason; never holds a value
	RefusedAt float64 // Unix seconds
}

// Size is what the state record counts for the dead letter.
func (l *Dead) Size() int64 { return l.Version.Size(l.ID) }

// EncodeDead is the record of a dead letter.
func EncodeDead(key []byte, l *Dead) []byte {
	dst := appendString(nil, l.Namespace)
	dst = appendString(dst, l.Key)
	dst = binary.AppendUvarint(dst, uint64(l.Status))
	dst = appendString(dst, l.Error)
	dst = appendFloat(dst, l.RefusedAt)
	return Seal(key, append(AppendPendingFields(dst, &l.Version), l.Value...))
}

// DecodeDead takes the body of a dead letter apart.
func DecodeDead(seq uint64, body []byte) (Dead, error) {
	d := decoder{rest: body}
	var l Dead
	l.Namespace, l.Key = d.string(), d.string()
	l.Status = d.count()
	l.Error = d.string()
	l.RefusedAt = d.float()
	v, value, err := DecodePending(d.rest)
	if d.bad || err != nil {
		return l, fmt.Errorf("%w: dead letter %d does not parse", ErrCorrupt, seq)
	}
	l.Version, l.Value = v, string(value)
	l.Seq = seq
	return l, nil
}
