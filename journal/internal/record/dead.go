package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DeadKind is the reason why a write is a dead letter.
type DeadKind uint8

// The kinds. Their numbers are part of the record format. 1 is [Conflict]'s.
const (
	Refused DeadKind = 0 // upstream refused the write for good
	Dropped DeadKind = 2 // a person has dropped it while it was pending
)

func (k DeadKind) String() string {
	return [...]string{Refused: "refused", Dropped: "dropped"}[k]
}

// Dead is a dead letter: an acknowledged write that has left the pending set without reaching upstream.
type Dead struct {
	ID
	Pending
	Value        string
	Author       string // empty if unknown
	Kind         DeadKind
	SupersededBy uint64  // this journal's later write that has settled; 0 if there is none
	Status       int     // upstream's status for the refusal; the journal does not interpret it
	Error        string  // the reason; never holds a value
	RefusedAt    float64 // Unix seconds
	Conflict     *Conflict
}

// Size returns the bytes that the state record counts for the dead letter.
func (l *Dead) Size() int64 {
	size := l.Pending.Size(l.ID)
	if l.Conflict != nil {
		size += int64(l.Conflict.winner)
	}
	return size
}

// flagAuthor is in the same byte as the kind.
const (
	flagAuthor = 1 << 5
	kindMask   = flagAuthor - 1
)

// kindFollows is set in a record's status: the kind follows it.
const kindFollows = 1 << 31

// EncodeDead returns the record of a dead letter.
func EncodeDead(key []byte, l *Dead) []byte {
	dst := appendString(nil, l.Namespace)
	dst = appendString(dst, l.Key)
	dst = binary.AppendUvarint(dst, uint64(min(max(l.Status, 0), math.MaxInt32))|kindFollows)
	dst = appendKind(dst, l)
	dst = appendString(dst, l.Error)
	dst = appendFloat(dst, l.RefusedAt)
	v := l.Pending
	v.Conditional = false // a retry goes by no condition
	return Seal(key, append(appendWrite(dst, &v, 0), l.Value...))
}

func appendKind(dst []byte, l *Dead) []byte {
	kind := byte(l.Kind)
	if l.Author != "" {
		kind |= flagAuthor
	}
	dst = binary.AppendUvarint(append(dst, kind), l.SupersededBy)
	if l.Author != "" {
		dst = appendString(dst, l.Author)
	}
	return dst
}

// DecodeDead decodes the body of a dead letter.
func DecodeDead(seq uint64, body []byte) (Dead, error) {
	d := decoder{rest: body}
	var l Dead
	l.Namespace, l.Key = d.string(), d.string()
	l.kind(&d)
	l.Error = d.string()
	l.RefusedAt = d.float()
	l.Pending = d.write(0)
	if d.bad {
		return l, fmt.Errorf("%w: dead letter %d does not parse", ErrCorrupt, seq)
	}
	l.Seq, l.Value, l.Bytes = seq, string(d.rest), int32(len(d.rest))
	return l, nil
}

// kind decodes the status and the fields that depend on it.
func (l *Dead) kind(d *decoder) {
	status := d.uvarint()
	l.Status = int(status &^ kindFollows)
	kind := d.byte()
	l.Kind, l.SupersededBy = DeadKind(kind&kindMask), d.uvarint()
	if kind&flagAuthor != 0 {
		l.Author = d.string()
	}
	l.Conflict = d.conflict(kind)
	d.bad = d.bad || status&kindFollows == 0 || status > kindFollows|math.MaxInt32 || l.Kind > Dropped
}
