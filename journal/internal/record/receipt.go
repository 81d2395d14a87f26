package record

import (
	"encoding/binary"
	"fmt"
)

// ReceiptState is the outcome of a write.
type ReceiptState uint8

// The states. Their numbers are part of the record format. A pending write has no record.
const (
	ReceiptPending    ReceiptState = 0
	ReceiptSettled    ReceiptState = 1 // upstream has confirmed the write
	ReceiptSuperseded ReceiptState = 2 // a later write has replaced it
	ReceiptDead       ReceiptState = 3 // it became a dead letter
)

func (s ReceiptState) String() string {
	switch s {
	case ReceiptPending:
		return "pending"
	case ReceiptSettled:
		return "settled"
	case ReceiptSuperseded:
		return "superseded"
	case ReceiptDead:
		return "dead"
	}
	return "unknown"
}

// Receipt tells the outcome of one acknowledged write. It is written when the write leaves the
// pending set, and again when its dead letter is retried.
type Receipt struct {
	ID
	Seq       uint64
	Op        Op
	State     ReceiptState
	WrittenAt float64 // Unix seconds
	SettledAt float64 // Unix seconds: when the write left the pending set; 0 for a pending one
	By        uint64  // this journal's write that has superseded it; 0 if there is none
	Reason    string  // never holds a value
}

// EncodeReceipt returns the record of a receipt.
func EncodeReceipt(key []byte, r *Receipt) []byte {
	dst := make([]byte, 0, 2+2*8+binary.MaxVarintLen64+2*2+len(r.Namespace)+len(r.Key)+len(r.Reason)+sumSize)
	dst = append(dst, byte(r.Op), byte(r.State))
	dst = appendFloat(appendFloat(dst, r.WrittenAt), r.SettledAt)
	dst = binary.AppendUvarint(dst, r.By)
	dst = appendString(appendString(dst, r.Namespace), r.Key)
	return Seal(key, append(dst, r.Reason...))
}

// DecodeReceipt decodes the body of a receipt.
func DecodeReceipt(seq uint64, body []byte) (Receipt, error) {
	d := decoder{rest: body}
	r := Receipt{Seq: seq, Op: Op(d.byte()), State: ReceiptState(d.byte()), WrittenAt: d.float(), SettledAt: d.float()}
	r.By = d.uvarint()
	r.Namespace, r.Key = d.string(), d.string()
	r.Reason = string(d.rest)
	if d.bad || r.Op != Put && r.Op != Delete || r.State < ReceiptSettled || r.State > ReceiptDead {
		return r, fmt.Errorf("%w: receipt of write %d does not parse", ErrCorrupt, seq)
	}
	return r, nil
}

// Request is a request that its caller has named, so that the journal knows a repetition of it. It is written
// with the write that it has made, or with the refusal that it got, among the receipts.
type Request struct {
	ID
	Op      Op       // that it asks for
	Name    [16]byte // a hash of the entry and the caller's name for the request
	Content [8]byte  // a hash of all that the request asks for
	Refused int      // the HTTP status of the refusal; 0 if it was not refused
	Answer  string   // what its answer needs beside the write's number, or the refusal; no value
}

// refused marks the operation of a request that has made no write.
const refused = 1 << 7

// EncodeRequest returns the record of a request. seq is the number of the write that it has made; 0 if it was
// refused and has made none.
func EncodeRequest(key []byte, r *Request, seq uint64) []byte {
	dst := binary.AppendUvarint([]byte{byte(r.Op)}, seq)
	if r.Refused != 0 {
		dst[0] |= refused
		dst = appendCount(dst, r.Refused)
	}
	dst = append(dst, r.Content[:]...)
	dst = appendString(appendString(dst, r.Namespace), r.Key)
	return Seal(key, append(dst, r.Answer...))
}

// DecodeRequest decodes the body of a request, without its name.
func DecodeRequest(body []byte) (r Request, seq uint64, err error) {
	d := decoder{rest: body}
	op, seq := d.byte(), d.uvarint()
	isRefused := op&refused != 0
	if r.Op = Op(op &^ refused); isRefused {
		r.Refused = d.count()
	}
	copy(r.Content[:], d.take(len(r.Content)))
	r.Namespace, r.Key = d.string(), d.string()
	r.Answer = string(d.rest)
	if d.bad || isRefused != (r.Refused != 0) || seq == 0 && !isRefused || r.Op != Put && r.Op != Delete {
		return r, 0, fmt.Errorf("%w: a named request does not parse", ErrCorrupt)
	}
	return r, seq, nil
}

// Generation is a group of receipts that are removed together.
type Generation struct {
	Number   uint64
	Receipts uint64 // the number of receipts; in the record, the last generation's may be too low
}

// Generations is the record of all generations of receipts.
type Generations struct {
	BeganAt float64 // Unix seconds: when the last one began
	All     []Generation
}

// GenerationsKey is the key of the record of the generations.
var GenerationsKey = []byte(ReceiptPrefix)

// EncodeGenerations returns the record of the generations.
func EncodeGenerations(g *Generations) []byte {
	dst := appendFloat(nil, g.BeganAt)
	for _, one := range g.All {
		dst = binary.AppendUvarint(dst, one.Number)
		dst = binary.AppendUvarint(dst, one.Receipts)
	}
	return Seal(GenerationsKey, dst)
}

// DecodeGenerations decodes the body of the record of the generations.
func DecodeGenerations(body []byte) (g Generations, err error) {
	d := decoder{rest: body}
	g.BeganAt = d.float()
	for !d.bad && len(d.rest) > 0 {
		one := Generation{Number: d.uvarint(), Receipts: d.uvarint()}
		if n := len(g.All); n > 0 && one.Number <= g.All[n-1].Number {
			d.bad = true
		}
		g.All = append(g.All, one)
	}
	if d.bad {
		return Generations{}, fmt.Errorf("%w: the record of the generations does not parse", ErrCorrupt)
	}
	return g, nil
}
