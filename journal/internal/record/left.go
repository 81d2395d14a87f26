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

// EncodeLeft returns the record of what requests may have left upstream; empty if nobody knows that.
func EncodeLeft(key []byte, left []Content) []byte {
	dst := make([]byte, 0, 1+len(left)*contentSize+sumSize)
	dst = append(dst, 0) // where an older botwired has a number
	for _, c := range left {
		dst = append(append(dst, byte(c.Op)), c.Sum[:]...)
	}
	return Seal(key, dst)
}

// contentSize is the length of a content in a record.
const contentSize = 1 + len(Content{}.Sum)

// DecodeLeft decodes the body of what EncodeLeft returns.
func DecodeLeft(body []byte) (left []Content, err error) {
	d := decoder{rest: body}
	d.uvarint()
	for !d.bad && len(d.rest) > 0 {
		c := Content{Op: Op(d.byte())}
		copy(c.Sum[:], d.take(len(c.Sum)))
		d.bad = d.bad || c.Op != Put && c.Op != Delete
		left = append(left, c)
	}
	if d.bad {
		return nil, fmt.Errorf("%w: what requests may have left does not parse", ErrCorrupt)
	}
	return left, nil
}

// Sending is the time until which something may have been sent upstream: of a boot of the machine, by the clock that
// counts since then. The zero value means that nobody knows when.
type Sending struct {
	Boot string
	At   int64 // nanoseconds
}

// EncodeSending returns the record of a time.
func EncodeSending(s Sending) []byte {
	return Seal(SendingKey, append(binary.AppendVarint(nil, s.At), s.Boot...))
}

// DecodeSending decodes the body of a time.
func DecodeSending(body []byte) (s Sending, err error) {
	at, n := binary.Varint(body)
	if n <= 0 {
		return s, fmt.Errorf("%w: the time of the last request does not parse", ErrCorrupt)
	}
	return Sending{Boot: string(body[n:]), At: at}, nil
}
