package memory

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/botwired/botwired/journal"
)

// An entity tag (RFC 9110, section 8.8.3) names the write that made an entry's state. The tag of this
// journal's write has the sequence number, which survives settling and restarts. The tag of another
// host's write has a checksum of the times and the value that upstream shows. So each local write has
// its own tag, even if it puts the same value again.
//
// A new journal numbers from 1 again, and a recovered one may reuse the number of a lost write. So the tag
// includes the value: a caller with an old tag can at worst meet the value that it has read.
//
// A tag may change without a write: when the disk no longer has the journal, or the copy that knows the
// write. Then the caller is refused and reads again. The times that upstream gives a settled write do
// not change its tag: under one tag, updated_at may change from the daemon's to upstream's.

// tagSum is the number of bytes of the value's SHA-256 in a tag.
const tagSum = 12

const foreignTag = "upstream"

const tagSize = len(`"18446744073709551615-"`) + tagSum*4/3

func appendWriteTag(dst []byte, seq uint64, sum []byte) []byte {
	return appendTagEnd(strconv.AppendUint(append(dst, '"'), seq, 10), sum) // guard 5.8
}

func appendTagEnd(dst, sum []byte) []byte {
	dst = base64.RawURLEncoding.AppendEncode(append(dst, '-'), sum[:tagSum])
	return append(dst, '"')
}

// WriteTag returns the tag of a write of this journal.
func WriteTag(seq uint64, value string) string {
	var tag [tagSize]byte
	sum := sha256.Sum256([]byte(value))
	return string(appendWriteTag(tag[:0], seq, sum[:]))
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
	return string(appendTagEnd(append(tag[:0], `"`+foreignTag...), sum[:]))
}
