package memory

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/botwired/botwired/journal"
)

// An entity tag (RFC 9110, section 8.8.3) names the write that made an entry's state: by its
// sequence number for a write of this journal's, which settling and a restart keep, and else
// by what upstream shows. So each local write has a tag of its own, also one that puts the
// same value again.
//
// A sequence number begins anew with a new journal, and a recovered one may give the number
// of a lost write again. So the value is in the tag too: a caller who holds a tag from before
// can at worst meet the value that it has read.
//
// A tag may change without a write: when the copy that knows its write is gone from the disk,
// or the journal is. Then a caller is refused and reads again. The times that upstream gives
// a settled write are no new state: updated_at may change from the daemon's to upstream's
// under one tag.

// tagSum is how many bytes of the value's SHA-256 a tag has.
const tagSum = 12

const foreignTag = "upstream"

const tagSize = len(`"18446744073709551615-"`) + tagSum*4/3

func appendWriteTag(dst []byte, seq uint64, value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return appendTagEnd(strconv.AppendUint(append(dst, '"'), seq, 10), &sum) // guard 5.8
}

func appendTagEnd(dst []byte, sum *[sha256.Size]byte) []byte {
	dst = base64.RawURLEncoding.AppendEncode(append(dst, '-'), sum[:tagSum])
	return append(dst, '"')
}

// WriteTag returns the tag of a write of this journal's.
func WriteTag(seq uint64, value string) string {
	var tag [tagSize]byte
	return string(appendWriteTag(tag[:0], seq, value))
}

func tagOf(s *journal.State) string {
	if s.WrittenAs != 0 {
		return WriteTag(s.WrittenAs, s.Value)
	}
	shown := make([]byte, 0, 2*8+len(s.Value))
	for _, at := range []float64{s.CreatedAt, s.UpdatedAt} {
		shown = binary.LittleEndian.AppendUint64(shown, math.Float64bits(at))
	}
	sum := sha256.Sum256(append(shown, s.Value...))
	var tag [tagSize]byte
	return string(appendTagEnd(append(tag[:0], `"`+foreignTag...), &sum))
}
