package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Observation is an entry's state as upstream showed it.
type Observation struct {
	Value     string
	ListBytes int     // the size that a listing gives
	CreatedAt float64 // Unix seconds
	UpdatedAt float64 // Unix seconds
	Origin    Origin  // stored with it; upstream does not show it
	// AbsentAt is a time in Unix seconds at which upstream did not hold the entry; 0 if none is known. It is
	// stored with it.
	AbsentAt float64
	// MadeAt is the time in Unix seconds by the writer's clock that the version itself names; 0 if it names
	// none. It is stored with it.
	MadeAt float64
	// Author and Host say who wrote it, as far as upstream shows it. Its version keeps them.
	Author, Host string
}

// Origin says which of this journal's writes made an entry's state upstream, and when, by upstream's
// clock. The zero value means that another writer made the state, as far as the journal knows, and that
// upstream has not shown a time for it.
type Origin struct {
	Seq uint64  // the write's sequence number; 0 if another writer made the state
	At  float64 // Unix seconds: upstream's own updated_at of the state; 0 until upstream has shown it
	// After is a lower bound for upstream's updated_at while At is 0, in Unix seconds; 0 if unknown.
	After float64
}

// Shown returns the origin of a state that upstream shows with a time. The state comes from the same
// write if upstream shows the write's time. Upstream acknowledges a write without a time; until it
// shows one, a state with the same value, as far as the reader can tell, counts as the write. If
// upstream shows a time from before the write, the write's own time stays unknown.
func (o Origin) Shown(same bool, at float64) Origin {
	if o.Seq != 0 && (o.At == at || o.At == 0 && same) { // guard 10.5
		if at < o.After {
			return o
		}
		return Origin{Seq: o.Seq, At: at}
	}
	return Origin{At: at}
}

// Overtakes reports whether another writer has made the state later than one of that origin, by upstream's clock.
func (o Origin) Overtakes(past Origin) bool { return o.Seq == 0 && o.NewerThan(past.Known()) } // guard 7.64

// Known returns the origin's time, or else its lower bound.
func (o Origin) Known() float64 { return max(o.At, o.After) }

// IsAfter reports whether the state is newer than another one of the same entry. Versions that name their
// times are compared by these; other states by upstream's times.
func (o *Observation) IsAfter(other *Observation) bool {
	if o.MadeAt != 0 && other.MadeAt != 0 {
		return other.MadeAt < o.MadeAt-rounding // guard 7.42
	}
	return o.Origin.NewerThan(other.UpdatedAt)
}

// rounding bounds how much the rounding to microseconds in transit changes a time.
const rounding = 0.5e-6

// NewerThan reports whether the state is newer than another one that upstream shows with the given
// time. Upstream's times may have been rounded to microseconds in transit.
func (o Origin) NewerThan(at float64) bool {
	return o.At != 0 && at < o.At-rounding || o.At == 0 && o.After != 0 && at < o.After+rounding // guard 7.24
}

const (
	// originFollows is set in a record's list bytes if an origin follows them.
	originFollows = 1 << 31
	// versionFollows is always set in a settled copy's list bytes: the version's number follows them.
	versionFollows = 1 << 30
	// absenceFollows is set in a settled copy's list bytes if AbsentAt comes after the version's number.
	absenceFollows = 1 << 29
	// madeFollows is set in a settled copy's list bytes if MadeAt comes last.
	madeFollows = 1 << 28
	// mostListBytes is the largest size that leaves the flags alone.
	mostListBytes = madeFollows - 1
)

// appendSize appends a size with flags, and an origin. It bounds what upstream has shown to what size can
// decode.
func appendSize(dst []byte, listBytes int, flags uint64, o Origin) []byte {
	flags |= uint64(min(max(listBytes, 0), mostListBytes)) // guard 4.36
	at := max(o.At, 0)
	if at == 0 && o.After > 0 {
		at = -o.After
	}
	if o.Seq == 0 && at == 0 {
		return binary.AppendUvarint(dst, flags)
	}
	dst = binary.AppendUvarint(dst, flags|originFollows)
	return appendFloat(binary.AppendUvarint(dst, o.Seq), at)
}

func (d *decoder) size() (listBytes int, o Origin) {
	n := d.uvarint()
	if n&originFollows != 0 {
		n &^= originFollows
		o = Origin{Seq: d.uvarint(), At: d.float()}
		if o.At < 0 {
			o.At, o.After = 0, -o.At
		}
		d.bad = d.bad || o == Origin{}
	}
	if n > math.MaxInt32 {
		d.bad = true
	}
	return int(n), o
}

// EncodeSettled returns the record of an entry's settled copy, whose value is in the version with this
// number. confirmedAt is in Unix seconds.
func EncodeSettled(key []byte, o *Observation, confirmedAt float64, version uint64) []byte {
	dst := make([]byte, 0, 6*8+binary.MaxVarintLen32+2*binary.MaxVarintLen64+sumSize)
	dst = appendFloat(dst, o.CreatedAt)
	dst = appendFloat(dst, o.UpdatedAt)
	dst = appendFloat(dst, confirmedAt)
	flags := uint64(versionFollows)
	if o.AbsentAt > 0 {
		flags |= absenceFollows
	}
	if o.MadeAt > 0 {
		flags |= madeFollows
	}
	dst = binary.AppendUvarint(appendSize(dst, o.ListBytes, flags, o.Origin), version)
	if o.AbsentAt > 0 {
		dst = appendFloat(dst, o.AbsentAt)
	}
	if o.MadeAt > 0 {
		dst = appendFloat(dst, o.MadeAt)
	}
	return Seal(key, dst)
}

// DecodeSettled decodes the body of a settled copy. version is the number of the version with its value.
func DecodeSettled(body []byte) (o Observation, confirmedAt float64, version uint64, err error) {
	d := decoder{rest: body}
	o.CreatedAt, o.UpdatedAt, confirmedAt = d.float(), d.float(), d.float()
	o.ListBytes, o.Origin = d.size()
	flags := o.ListBytes
	o.ListBytes &^= versionFollows | absenceFollows | madeFollows
	version = d.uvarint()
	if flags&absenceFollows != 0 {
		o.AbsentAt = d.float()
		d.bad = d.bad || o.AbsentAt <= 0
	}
	if flags&madeFollows != 0 {
		o.MadeAt = d.float()
		d.bad = d.bad || o.MadeAt <= 0
	}
	if d.bad || flags&versionFollows == 0 || version == 0 || len(d.rest) != 0 {
		return o, 0, 0, fmt.Errorf("%w: settled record does not parse", ErrCorrupt)
	}
	return o, confirmedAt, version, nil
}

// VersionOfSettled returns the key of the version that a settled copy's record names. Errors: [ErrCorrupt].
func VersionOfSettled(key, sealed []byte) (version []byte, err error) {
	id, err := ParseEntryKey(SettledPrefix, key)
	if err != nil {
		return nil, err
	}
	body, err := Unseal(key, sealed)
	if err != nil {
		return nil, err
	}
	_, _, seq, err := DecodeSettled(body)
	return VersionKey(id, seq), err
}

// Row is one line of a listing.
type Row struct {
	Key       string
	ListBytes int
	UpdatedAt float64 // Unix seconds
	Origin    Origin  // stored with it; upstream does not show it
	// Rough says that ListBytes is larger than the value's size, because upstream holds the value sealed.
	// It is not stored.
	Rough bool
}

// EncodeRow returns the record of a row.
func EncodeRow(key []byte, r Row) []byte {
	return Seal(key, appendFloat(appendSize(nil, r.ListBytes, 0, r.Origin), r.UpdatedAt))
}

// DecodeRow decodes the body of a row. name is the row's key.
func DecodeRow(name string, body []byte) (Row, error) {
	d := decoder{rest: body}
	r := Row{Key: name}
	r.ListBytes, r.Origin = d.size()
	r.UpdatedAt = d.float()
	if d.bad || len(d.rest) != 0 {
		return r, fmt.Errorf("%w: listing row does not parse", ErrCorrupt)
	}
	return r, nil
}

// Header describes a listing without its rows.
type Header struct {
	FetchedAt float64 // Unix seconds: when upstream was asked
	Newest    float64 // Unix seconds: the latest updated_at that was listed, or that a read has shown since
	Complete  bool    // upstream had no more keys
	Suspect   Suspect
}

// Suspect describes a suspect namespace: upstream seems to have lost entries that it has confirmed. The
// zero value means that the namespace is not suspect.
type Suspect struct {
	Since   float64 // Unix seconds; 0 if not suspect
	Missing int     // entries that upstream lacked when it was last asked for its list
	Of      int     // entries that upstream has confirmed
}

const (
	flagComplete = 1 << 0
	flagSuspect  = 1 << 1 // the fields of a suspect namespace follow
)

// EncodeHeader returns the record of a header.
func EncodeHeader(key []byte, h Header) []byte {
	var flags byte
	if h.Complete {
		flags |= flagComplete
	}
	if h.Suspect.Since != 0 {
		flags |= flagSuspect
	}
	dst := append(appendFloat(appendFloat(nil, h.FetchedAt), h.Newest), flags)
	if s := h.Suspect; s.Since != 0 {
		dst = appendFloat(dst, s.Since)
		dst = appendCount(appendCount(appendCount(dst, s.Missing), s.Of), 0)
	}
	return Seal(key, dst)
}

// DecodeHeader decodes the body of a header. Earlier versions counted the older rows of a suspect namespace, and noted in
// bit 2 of the flags that a person had it restored: both mean nothing any more.
func DecodeHeader(body []byte) (Header, error) {
	d := decoder{rest: body}
	h := Header{FetchedAt: d.float(), Newest: d.float()}
	flags := d.byte()
	h.Complete = flags&flagComplete != 0
	if flags&flagSuspect != 0 {
		h.Suspect = Suspect{Since: d.float(), Missing: d.count(), Of: d.count()}
		_ = d.count()
		d.bad = d.bad || h.Suspect.Since == 0
	}
	if d.bad || len(d.rest) != 0 {
		return Header{}, fmt.Errorf("%w: listing header does not parse", ErrCorrupt)
	}
	return h, nil
}
