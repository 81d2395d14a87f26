package record

import (
	"encoding/binary"
	"fmt"
)

// Loss says that a version of an entry has ended though nothing here has replaced it. The version itself stays as it is.
type Loss struct {
	Gone  bool    // upstream has ceased to hold it; otherwise it has lost a conflict between two hosts
	Apart bool    // it was never in force here: its number does not tell when it was, and it goes with the Loss
	At    float64 // Unix seconds: when this journal learnt of it
	Order uint64  // a later one has a higher number
	Size  int64   // the bytes that it counts for
}

// The flags of a Loss.
const (
	flagLossGone = 1 << iota
	flagLossApart
	unknownLossFlags
)

// LossSize returns the bytes that the loss of a version counts for.
func LossSize(id ID, value string) int64 {
	return int64(Overhead + len(id.Namespace) + len(id.Key) + len(value))
}

// LossKey returns the key of the loss of a version.
func LossKey(id ID, seq uint64) []byte { return appendSuffix(EntryKey(LossPrefix, id), seq) }

// LossesOf returns the key prefix of the losses of an entry's versions.
func LossesOf(id ID) []byte { return append(EntryKey(LossPrefix, id), '/') }

// LossOfVersion returns the key of the loss of a version, given the version's key.
func LossOfVersion(key []byte) []byte { return append([]byte(LossPrefix), key[len(VersionPrefix):]...) }

// ParseLossKey parses a key made by [LossKey]. Errors: [ErrCorrupt].
func ParseLossKey(key []byte) (ID, uint64, error) { return ParseVersionKey(key) }

// EncodeLoss returns the record of a loss.
func EncodeLoss(key []byte, l *Loss) []byte {
	var flags byte
	if l.Gone {
		flags |= flagLossGone
	}
	if l.Apart {
		flags |= flagLossApart
	}
	dst := binary.AppendUvarint(appendFloat([]byte{flags}, l.At), l.Order)
	return Seal(key, appendCount(dst, int(l.Size)))
}

// DecodeLoss decodes the body of the record of a loss.
func DecodeLoss(body []byte) (Loss, error) {
	d := decoder{rest: body}
	flags := d.byte()
	l := Loss{Gone: flags&flagLossGone != 0, Apart: flags&flagLossApart != 0, At: d.float(), Order: d.uvarint(), Size: int64(d.count())}
	if d.bad || len(d.rest) != 0 || flags >= unknownLossFlags {
		return Loss{}, fmt.Errorf("%w: the loss of a version does not parse", ErrCorrupt)
	}
	return l, nil
}
