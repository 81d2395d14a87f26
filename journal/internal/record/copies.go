package record

import (
	"encoding/binary"
	"fmt"
)

// Observation is a present entry as upstream showed it.
type Observation struct {
	Value     string
	ListBytes int     // the size that a listing shows
	CreatedAt float64 // Unix seconds
	UpdatedAt float64 // Unix seconds
}

// EncodeSettled is the settled copy of an entry that upstream confirmed at a time, in
// Unix seconds.
func EncodeSettled(key []byte, o *Observation, confirmedAt float64) []byte {
	dst := make([]byte, 0, 3*8+binary.MaxVarintLen32+len(o.Value)+sumSize)
	dst = appendFloat(dst, o.CreatedAt)
	dst = appendFloat(dst, o.UpdatedAt)
	dst = appendFloat(dst, confirmedAt)
	dst = binary.AppendUvarint(dst, uint64(o.ListBytes))
	return Seal(key, append(dst, o.Value...))
}

// DecodeSettled takes the body of a settled copy apart.
func DecodeSettled(body []byte) (o Observation, confirmedAt float64, err error) {
	d := decoder{rest: body}
	o.CreatedAt, o.UpdatedAt, confirmedAt = d.float(), d.float(), d.float()
	o.ListBytes = d.count()
	o.Value = string(d.rest)
	if d.bad {
		return o, 0, fmt.Errorf("%w: settled record does not parse", ErrCorrupt)
	}
	return o, confirmedAt, nil
}

// SettledTimes is the confirmation time of a settled copy, read without its value.
func SettledTimes(body []byte) (confirmedAt float64, err error) {
	d := decoder{rest: body}
	_, _, confirmedAt = d.float(), d.float(), d.float()
	if d.bad {
		return 0, fmt.Errorf("%w: settled record does not parse", ErrCorrupt)
	}
	return confirmedAt, nil
}

// Row is one line of a listing.
type Row struct {
	Key       string
	ListBytes int
	UpdatedAt float64 // Unix seconds
}

// EncodeRow is the record of a row.
func EncodeRow(key []byte, r Row) []byte {
	return Seal(key, appendFloat(binary.AppendUvarint(nil, uint64(r.ListBytes)), r.UpdatedAt))
}

// DecodeRow takes the body of a row apart. name is the row's key.
func DecodeRow(name string, body []byte) (Row, error) {
	d := decoder{rest: body}
	r := Row{Key: name, ListBytes: d.count(), UpdatedAt: d.float()}
	if d.bad || len(d.rest) != 0 {
		return r, fmt.Errorf("%w: listing row does not parse", ErrCorrupt)
	}
	return r, nil
}

// Header is what is known of a listing as a whole.
type Header struct {
	FetchedAt float64 // Unix seconds: when upstream was asked
	Newest    float64 // Unix seconds: the latest updated_at that a row has had
	Complete  bool    // upstream had no more keys
}

const flagComplete = 1 << 0

// EncodeHeader is the record of a header.
func EncodeHeader(key []byte, h Header) []byte {
	var flags byte
	if h.Complete {
		flags = flagComplete
	}
	return Seal(key, append(appendFloat(appendFloat(nil, h.FetchedAt), h.Newest), flags))
}

// DecodeHeader takes the body of a header apart.
func DecodeHeader(body []byte) (Header, error) {
	d := decoder{rest: body}
	h := Header{FetchedAt: d.float(), Newest: d.float(), Complete: d.byte()&flagComplete != 0}
	if d.bad || len(d.rest) != 0 {
		return Header{}, fmt.Errorf("%w: listing header does not parse", ErrCorrupt)
	}
	return h, nil
}
