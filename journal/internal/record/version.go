package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Version is a version of an entry as it was written. It never changes: what becomes of the version stands
// in other records, which name it by its number.
type Version struct {
	Op        Op
	Shown     bool    // upstream has shown it: no write of this journal has the version's number
	At        float64 // Unix seconds: when it was written, by the writer's clock
	Follows   uint64  // the number of the pending write that it has replaced; 0 if nothing was pending
	Author    string  // who wrote it, as far as the daemon can tell; empty if unknown
	Host      string  // empty for this journal's writes, and if unknown
	ListBytes int32   // the size that a listing gives
	Value     string
}

// The flags of a version.
const (
	flagShown = 1 << iota
	flagFollows
	unknownVersionFlags
)

// AppendVersionFields appends the fields of a version record that come before its value.
func AppendVersionFields(dst []byte, v *Version) []byte {
	var flags byte
	if v.Shown {
		flags |= flagShown
	}
	if v.Follows != 0 {
		flags |= flagFollows
	}
	dst = appendFloat(append(dst, byte(v.Op), flags), v.At)
	if v.Follows != 0 {
		dst = binary.AppendUvarint(dst, v.Follows)
	}
	dst = appendString(appendString(dst, v.Author), v.Host)
	return appendCount(dst, int(v.ListBytes))
}

// VersionSize returns the length of the record that consists of these fields and value.
func VersionSize(fields []byte, value string) int { return len(fields) + len(value) + sumSize }

// EncodeVersion writes the record into dst, which must have room for it.
func EncodeVersion(dst, key, fields []byte, value string) {
	Seal(key, append(append(dst[:0], fields...), value...))
}

// WrittenAt returns the time in a version record, without a look at the checksum.
func WrittenAt(sealed []byte) float64 {
	d := decoder{rest: sealed[min(2, len(sealed)):]}
	return d.float()
}

// IsPut reports whether the version of a record's body is a put of this journal.
func IsPut(body []byte) bool { return len(body) > 1 && Op(body[0]) == Put && body[1]&flagShown == 0 }

// EncodeRetention returns the record of the retention: the latest time, and the highest number, of a version that it has
// removed.
func EncodeRetention(newest float64, upTo uint64) []byte {
	return Seal(RetentionKey, binary.AppendUvarint(appendFloat(nil, newest), upTo))
}

// DecodeRetention decodes the body of the record of the retention. upTo is the highest possible number if the record does not
// tell.
func DecodeRetention(body []byte) (newest float64, upTo uint64, err error) {
	d := decoder{rest: body}
	newest, upTo = d.float(), math.MaxUint64
	if len(d.rest) > 0 {
		upTo = d.uvarint()
	}
	if d.bad || len(d.rest) != 0 || newest <= 0 {
		return 0, 0, fmt.Errorf("%w: the record of the retention does not parse", ErrCorrupt)
	}
	return newest, upTo, nil
}

// DecodeVersion decodes the body of a version record.
func DecodeVersion(body []byte) (Version, error) {
	d := decoder{rest: body}
	v := Version{Op: Op(d.byte())}
	flags := d.byte()
	v.Shown = flags&flagShown != 0
	v.At = d.float()
	if flags&flagFollows != 0 {
		v.Follows = d.uvarint()
	}
	v.Author, v.Host = d.string(), d.string()
	v.ListBytes = int32(d.count())
	if d.bad || flags >= unknownVersionFlags || v.Op != Put && v.Op != Delete {
		return Version{}, fmt.Errorf("%w: version does not parse", ErrCorrupt)
	}
	v.Value = string(d.rest)
	return v, nil
}
