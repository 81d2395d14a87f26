package record

import (
	"encoding/binary"
	"math"
)

func appendFloat(dst []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// appendCount appends a number for [decoder.count]. If it does not fit, appendCount takes the nearest that does.
func appendCount(dst []byte, n int) []byte {
	return binary.AppendUvarint(dst, uint64(min(max(n, 0), math.MaxInt32))) // guard 4.35
}

// decoder decodes fields from the front of a body. bad is set at the first missing or malformed field;
// the fields decoded after that mean nothing.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || len(d.rest) < n {
		d.bad = true
		return nil
	}
	head := d.rest[:n]
	d.rest = d.rest[n:]
	return head
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) float() float64 { return math.Float64frombits(d.uint64()) }

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count reads a length or another number of at most 31 bits.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > math.MaxInt32 {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.bad = true
		return ""
	}
	return string(d.take(int(n)))
}
