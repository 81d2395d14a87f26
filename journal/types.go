package journal

import (
	"errors"
	"time"
)

// ID names an entry: one value under a namespace and a key.
type ID struct {
	Namespace string
	Key       string
}

func (id ID) String() string { return id.Namespace + "/" + id.Key }

// Op is what a write does to its entry.
type Op uint8

// The operations. Their numbers are part of the record format.
const (
	Put    Op = 1
	Delete Op = 2
)

func (op Op) String() string {
	switch op {
	case Put:
		return "put"
	case Delete:
		return "delete"
	}
	return "unknown"
}

// Write is one acknowledged write. Times are Unix seconds, as BotWire prints them.
type Write struct {
	ID
	Seq       uint64 // position in the one order of all writes of this journal
	Op        Op
	Value     string  // empty for a delete
	ListBytes int     // the size that a listing shows for Value
	UpdatedAt float64 // when it was journaled; never before the entry's previous write

	createdAt   float64 // when the entry was first put, since nothing or since a delete
	afterDelete bool    // the settled copy is not its past
}

// Pending is what the index knows of a pending write: everything but the value.
type Pending struct {
	ID
	Seq       uint64
	Op        Op
	Bytes     int     // length of the value in UTF-8
	ListBytes int     // the size that a listing shows
	UpdatedAt float64 // Unix seconds
	Since     float64 // Unix seconds: since when the entry has been waiting, not later than its oldest unsettled write
}

// Kind says where an entry's state is known from.
type Kind uint8

// The kinds of a [State], in the order in which they win.
const (
	Unknown Kind = iota // nothing is known here: only upstream can tell
	Settled             // upstream had this state when it was last asked
	Value               // a pending put
	Gone                // a pending delete
)

// State is what this journal can say of an entry.
type State struct {
	Kind        Kind
	Seq         uint64 // of the pending write; 0 for Settled and Unknown
	Value       string
	ListBytes   int
	CreatedAt   float64 // Unix seconds
	UpdatedAt   float64 // Unix seconds
	ConfirmedAt time.Time
}

// Observation is a present entry as upstream showed it.
type Observation struct {
	Value     string
	ListBytes int
	CreatedAt float64 // Unix seconds
	UpdatedAt float64 // Unix seconds
}

// Row is one line of a listing.
type Row struct {
	Key       string
	ListBytes int
	UpdatedAt float64 // Unix seconds
}

// Listing is the last listing of a namespace that upstream gave, brought forward
// by the writes that have settled since.
type Listing struct {
	Rows      []Row     // in order of key
	FetchedAt time.Time // when upstream was asked
	Complete  bool      // it has all of upstream's keys, as far as is known
}

// DeadLetter is an acknowledged write that upstream refused for good.
type DeadLetter struct {
	Write
	Status    int     // upstream's HTTP status
	Error     string  // upstream's reason; never holds a value
	RefusedAt float64 // Unix seconds
}

// Change tells a watcher that what is known of an entry changed.
type Change struct {
	ID
	Seq     uint64 // of the write concerned
	Written bool   // a new write became visible
}

var (
	// ErrFull refuses a write because the budget or the disk is full. Nothing was
	// written; the same write may be accepted later (contract 3).
	ErrFull = errors.New("journal full")
	// ErrInUse says that another process has the directory open.
	ErrInUse = errors.New("in use by another process")
	// ErrClosed says that Close was called.
	ErrClosed = errors.New("journal closed")
	// ErrFailed says that the disk failed; the process is about to end.
	ErrFailed = errors.New("journal failed")
	// ErrCorrupt says that the store does not hold what it should.
	ErrCorrupt = errors.New("journal corrupt")
	// ErrFormat says that the directory was written by another format version.
	ErrFormat = errors.New("journal format not supported")
	// ErrNoDeadLetter says that there is no dead letter of that number.
	ErrNoDeadLetter = errors.New("no such dead letter")
	// ErrSuperseded says that a pending write has left the pending set, or is no
	// longer its entry's newest.
	ErrSuperseded = errors.New("write superseded")
)
