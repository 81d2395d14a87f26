package record

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Content identifies the state in which a write leaves its entry, without the value. Contents stay
// comparable over restarts and between hosts.
type Content struct {
	Op  Op
	Sum [16]byte // the first half of the SHA-256 of a put's value; zero for a delete
}

// ContentOf returns the content that a write leaves.
func ContentOf(op Op, value string) Content {
	c := Content{Op: op}
	if op == Put {
		sum := sha256.Sum256([]byte(value))
		copy(c.Sum[:], sum[:])
	}
	return c
}

// Sent is a sent mark: it says which of an entry's requests upstream may hold or may yet carry out.
type Sent struct {
	Seq      uint64    // of the last write that was sent
	Contents []Content // results of the requests; empty if unknown
}

// EncodeSent returns the record of a sent mark.
func EncodeSent(key []byte, s *Sent) []byte {
	dst := make([]byte, 0, binary.MaxVarintLen64+len(s.Contents)*contentSize+sumSize)
	dst = binary.AppendUvarint(dst, s.Seq)
	for _, c := range s.Contents {
		dst = append(append(dst, byte(c.Op)), c.Sum[:]...)
	}
	return Seal(key, dst)
}

// contentSize is the length of a content in a sent mark.
const contentSize = 1 + len(Content{}.Sum)

// DecodeSent decodes the body of a sent mark.
func DecodeSent(body []byte) (s Sent, err error) {
	d := decoder{rest: body}
	s.Seq = d.uvarint()
	for !d.bad && len(d.rest) > 0 {
		c := Content{Op: Op(d.byte())}
		copy(c.Sum[:], d.take(len(c.Sum)))
		d.bad = d.bad || c.Op != Put && c.Op != Delete
		s.Contents = append(s.Contents, c)
	}
	if d.bad {
		return Sent{}, fmt.Errorf("%w: sent mark does not parse", ErrCorrupt)
	}
	return s, nil
}
