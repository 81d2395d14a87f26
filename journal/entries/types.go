package entries

import (
	"time"

	"github.com/botwired/botwired/journal/internal/record"
)

// ID names an entry: one value under a namespace and a key.
type ID = record.ID

// Op is a kind of write: a put or a delete.
type Op = record.Op

// The operations.
const (
	Put    = record.Put
	Delete = record.Delete
)

// Content is the state in which a write leaves its entry, without the value.
type Content = record.Content

// ContentOf returns the content that a write leaves.
func ContentOf(op Op, value string) Content { return record.ContentOf(op, value) }

// Base is the state that upstream holds until the pending write replaces it, as far as the journal knows.
type Base = record.Base

// Observation is a present entry as upstream showed it.
type Observation = record.Observation

// Row is one line of a listing.
type Row = record.Row

// Origin says which of this journal's writes made an entry's state upstream, and when, by upstream's
// clock.
type Origin = record.Origin

// Kind says how an entry's state is known.
type Kind uint8

// The kinds of a [State]. A pending write takes precedence over a settled copy, which takes precedence
// over a listing.
const (
	Unknown Kind = iota // only upstream knows
	Settled             // upstream had this state when it was last asked
	Value               // a pending put
	Gone                // a pending delete
	Absent              // upstream did not hold the entry when its namespace was last listed
)

// State is an entry as the journal knows it.
type State struct {
	Kind        Kind
	Seq         uint64 // of the pending write; 0 if there is none
	Value       string
	ListBytes   int
	CreatedAt   float64 // Unix seconds
	UpdatedAt   float64 // Unix seconds
	Author      string  // of a settled copy: see NewWrite.Author
	ConfirmedAt time.Time
	// WrittenAs is the sequence number of this journal's write that made the state. Settling keeps it,
	// and so does an answer from upstream that still shows that write. It is 0 if another host made the
	// state, as far as the journal knows.
	WrittenAs uint64
	// MadeAt is that of a settled copy: see [Observation]. Of a pending write, it is [queue.Write].WrittenAt.
	MadeAt    float64
	LosesTies bool // of a pending write: see [queue.NewWrite].LosesTies
	// Listed says that the listing has the entry, whose state is otherwise Unknown.
	Listed bool
	// Outdated says of a settled copy that upstream has listed a later state, which another host made.
	Outdated bool
	// Rejection says why [Entries.Fill] did not accept upstream's answer. Only Fill sets it.
	Rejection Rejection
}

// Listing is upstream's last listing of a namespace, merged with all writes that have settled since.
type Listing struct {
	Rows      []Row     // in key order
	FetchedAt time.Time // when upstream was asked
	Complete  bool      // it has all of upstream's keys, as far as the journal knows
	Suspect   bool      // upstream no longer lists some of its entries: see [Suspect]
	Cut       bool      // rows were left out of Rows
}
