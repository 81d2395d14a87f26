package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/cockroachdb/pebble/v2"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is the length of the checksum that ends every value.
const sumSize = 4

// The flags of a pending record and of a listing's header.
const (
	flagAfterDelete = 1 << 0
	flagComplete    = 1 << 0
)

// checksum is the CRC-32C of a record's key and body.
func checksum(key, body []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, key), castagnoli, body)
}

// seal appends to body the checksum that binds it to its key.
func seal(key, body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body, checksum(key, body))
}

// unseal returns the body of a sealed value, or ErrCorrupt when it is not the value
// that was written under this key.
func unseal(key, value []byte) ([]byte, error) {
	if len(value) < sumSize {
		return nil, fmt.Errorf("%w: record %q is %d bytes long", ErrCorrupt, key, len(value))
	}
	body, sum := value[:len(value)-sumSize], binary.LittleEndian.Uint32(value[len(value)-sumSize:])
	if checksum(key, body) != sum {
		return nil, fmt.Errorf("%w: checksum of record %q does not match", ErrCorrupt, key)
	}
	return body, nil
}

// sealedSum is the checksum that a sealed value carries.
func sealedSum(value []byte) uint32 {
	return binary.LittleEndian.Uint32(value[len(value)-sumSize:])
}

// version is a pending write as the index keeps it: its record without the value.
type version struct {
	seq         uint64
	updatedAt   float64
	since       float64 // when the entry began to wait
	createdAt   float64 // when the entry was first put, since nothing or since a delete
	bytes       int32   // of the value
	listBytes   int32
	sum         uint32 // the record's checksum, its share of the state record's sum
	op          Op
	afterDelete bool // a pending delete came before it: the settled copy is not its past
}

func (v *version) size(id ID) int64 {
	return int64(pendingOverhead + len(id.Namespace) + len(id.Key) + int(v.bytes))
}

// pendingOverhead is what a pending write or dead letter is counted as on top of its
// namespace, key and value: its record's fields and its place in the index.
const pendingOverhead = 64

// pendingFields is the most that a pending record takes beside its value.
const pendingFields = 1 + 1 + 3*8 + binary.MaxVarintLen32 + sumSize

func appendPending(dst []byte, v *version, value string) []byte {
	var flags byte
	if v.afterDelete {
		flags = flagAfterDelete
	}
	dst = append(dst, byte(v.op), flags)
	dst = appendFloat(dst, v.updatedAt)
	dst = appendFloat(dst, v.since)
	dst = appendFloat(dst, v.createdAt)
	dst = binary.AppendUvarint(dst, uint64(v.listBytes))
	return append(dst, value...)
}

// setPending puts the record of a pending write into a batch, and its checksum into v.
func setPending(batch *pebble.Batch, id ID, v *version, value string) error {
	var scratch [pendingFields]byte
	fields := appendPending(scratch[:0], v, "")
	keySize := len(pendingPrefix) + len(id.Namespace) + 1 + len(id.Key) + pendingSuffix
	op := batch.SetDeferred(keySize, len(fields)+len(value)+sumSize)
	key := appendSuffix(appendEntryKey(op.Key[:0], pendingPrefix, id), v.seq)
	record := seal(key, append(append(op.Value[:0], fields...), value...))
	v.sum = sealedSum(record)
	return op.Finish()
}

func decodePending(body []byte) (version, []byte, error) {
	d := decoder{rest: body}
	v := version{op: Op(d.byte())}
	v.afterDelete = d.byte()&flagAfterDelete != 0
	v.updatedAt, v.since, v.createdAt = d.float(), d.float(), d.float()
	v.listBytes = int32(d.count())
	v.bytes = int32(len(d.rest))
	if d.bad || (v.op != Put && v.op != Delete) {
		return version{}, nil, fmt.Errorf("%w: pending record does not parse", ErrCorrupt)
	}
	return v, d.rest, nil
}

func appendSettled(dst []byte, o Observation, confirmedAt float64) []byte {
	dst = appendFloat(dst, o.CreatedAt)
	dst = appendFloat(dst, o.UpdatedAt)
	dst = appendFloat(dst, confirmedAt)
	dst = binary.AppendUvarint(dst, uint64(o.ListBytes))
	return append(dst, o.Value...)
}

func decodeSettled(body []byte) (o Observation, confirmedAt float64, err error) {
	d := decoder{rest: body}
	o.CreatedAt, o.UpdatedAt, confirmedAt = d.float(), d.float(), d.float()
	o.ListBytes = d.count()
	o.Value = string(d.rest)
	if d.bad {
		return o, 0, fmt.Errorf("%w: settled record does not parse", ErrCorrupt)
	}
	return o, confirmedAt, nil
}

func appendRow(dst []byte, r Row) []byte {
	return appendFloat(binary.AppendUvarint(dst, uint64(r.ListBytes)), r.UpdatedAt)
}

func decodeRow(key string, body []byte) (Row, error) {
	d := decoder{rest: body}
	r := Row{Key: key, ListBytes: d.count(), UpdatedAt: d.float()}
	if d.bad || len(d.rest) != 0 {
		return r, fmt.Errorf("%w: listing row does not parse", ErrCorrupt)
	}
	return r, nil
}

// header is what is known of a listing as a whole.
type header struct {
	fetchedAt float64 // when upstream was asked
	newest    float64 // the latest updated_at that a row has had
	complete  bool    // upstream had no more keys
}

func appendHeader(dst []byte, h header) []byte {
	var flags byte
	if h.complete {
		flags = flagComplete
	}
	return append(appendFloat(appendFloat(dst, h.fetchedAt), h.newest), flags)
}

func decodeHeader(body []byte) (header, error) {
	d := decoder{rest: body}
	h := header{fetchedAt: d.float(), newest: d.float(), complete: d.byte()&flagComplete != 0}
	if d.bad || len(d.rest) != 0 {
		return header{}, fmt.Errorf("%w: listing header does not parse", ErrCorrupt)
	}
	return h, nil
}

func appendDead(dst []byte, id ID, v *version, value string, status int, reason string, refusedAt float64) []byte {
	dst = appendString(dst, id.Namespace)
	dst = appendString(dst, id.Key)
	dst = binary.AppendUvarint(dst, uint64(status))
	dst = appendString(dst, reason)
	dst = appendFloat(dst, refusedAt)
	return appendPending(dst, v, value)
}

func decodeDead(seq uint64, body []byte) (DeadLetter, error) {
	d := decoder{rest: body}
	var l DeadLetter
	l.Namespace, l.Key = d.string(), d.string()
	l.Status = d.count()
	l.Error = d.string()
	l.RefusedAt = d.float()
	v, value, err := decodePending(d.rest)
	if d.bad || err != nil {
		return l, fmt.Errorf("%w: dead letter %d does not parse", ErrCorrupt, seq)
	}
	l.Seq, l.Op, l.Value = seq, v.op, string(value)
	l.ListBytes, l.UpdatedAt = int(v.listBytes), v.updatedAt
	return l, nil
}

// totals is the state record: what the store must be found to hold.
type totals struct {
	seq          uint64 // highest sequence number given out
	pending      uint64 // pending records, superseded ones that await removal included
	pendingBytes int64
	sum          uint64 // of their checksums
	dead         uint64
	deadBytes    int64
	batches      uint64 // that rewrote this record; format 1 did not count them
}

func (t *totals) add(id ID, v *version) {
	t.pending++
	t.pendingBytes += v.size(id)
	t.sum += uint64(v.sum)
}

func (t *totals) remove(id ID, v *version) {
	t.pending--
	t.pendingBytes -= v.size(id)
	t.sum -= uint64(v.sum)
}

func appendTotals(dst []byte, t *totals) []byte {
	dst = binary.AppendUvarint(dst, t.seq)
	dst = binary.AppendUvarint(dst, t.pending)
	dst = binary.AppendUvarint(dst, uint64(t.pendingBytes))
	dst = binary.LittleEndian.AppendUint64(dst, t.sum)
	dst = binary.AppendUvarint(dst, t.dead)
	dst = binary.AppendUvarint(dst, uint64(t.deadBytes))
	return binary.AppendUvarint(dst, t.batches)
}

func decodeTotals(body []byte) (totals, error) {
	d := decoder{rest: body}
	var t totals
	t.seq, t.pending, t.pendingBytes = d.uvarint(), d.uvarint(), int64(d.uvarint())
	t.sum = d.uint64()
	t.dead, t.deadBytes = d.uvarint(), int64(d.uvarint())
	if len(d.rest) > 0 { // none in what format 1 wrote, and no batch has replaced since
		t.batches = d.uvarint()
	}
	if d.bad || len(d.rest) != 0 {
		return totals{}, fmt.Errorf("%w: state record does not parse", ErrCorrupt)
	}
	return t, nil
}

func appendFloat(dst []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// decoder takes fields off the front of a body. After the first field that is not
// there, bad is set and every further field is zero.
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

// count is a length or a number of no more than 31 bits.
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
