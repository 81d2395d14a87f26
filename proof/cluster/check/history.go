package check

import (
	"fmt"
	"time"
)

// Entry names an entry.
type Entry struct{ Namespace, Key string }

// Write is one that a caller has asked a daemon for.
type Write struct {
	Host int // of the daemon
	Entry
	Delete bool
	Value  string // no other write has it; empty of a delete
	// Seq is the number in the daemon's acknowledgement; 0 if there was none, and the write may or may not
	// have taken place.
	Seq uint64
	// Began and Ended are times since the start of the run.
	Began, Ended time.Duration
}

// Receipt is what a daemon says has become of a write.
type Receipt struct {
	State     string // "pending", "settled", "superseded" or "dead"
	By        uint64 // the later write of the same daemon in its place; 0 if there is none
	WrittenAt int64  // microseconds since 1970
}

// Lost is a state that has lost a conflict, in the history of a daemon.
type Lost struct {
	Own bool   // it is a write of the daemon that keeps it, and not of another host
	Seq uint64 // of the write, if it is an own one
	Entry
	WrittenAt int64 // microseconds since 1970
}

// Version is what the bucket holds, or has held, of an entry.
type Version struct {
	Revision  uint64
	Deleted   bool
	Value     string
	WrittenAt int64  // microseconds since 1970
	Host      string // the name of a data directory
	Seq       uint64
}

// String names a version in a fault.
func (v *Version) String() string {
	if v.Deleted {
		return fmt.Sprintf("revision %d, a tombstone of %d", v.Revision, v.WrittenAt)
	}
	return fmt.Sprintf("revision %d, %.20q of %d", v.Revision, v.Value, v.WrittenAt)
}

// Read is the answer to one GET.
type Read struct {
	Host int
	Entry
	Found        bool
	Value        string
	UpdatedAt    int64 // microseconds since 1970
	Began, Ended time.Duration
}

// State is the value of an entry.
type State struct {
	Value     string
	UpdatedAt int64 // microseconds since 1970; 0 in a state that has none
}

// Cut is a time in which daemons on different sides could not know of each other's writes.
type Cut struct {
	From, To int64       // microseconds since 1970
	Side     map[int]int // by host
}

// parted reports whether the hosts were on different sides while both times were.
func (c *Cut) parted(a, b int, at, then int64) bool {
	return c.Side[a] != c.Side[b] && c.From <= min(at, then) && max(at, then) <= c.To
}

// History is a whole run.
type History struct {
	Writes   []Write
	Reads    []Read
	Receipts []map[uint64]Receipt // by host and seq, at the end
	Lost     [][]Lost             // by the host that keeps them
	// Bucket has the versions that the bucket keeps, by rising revisions, and Kept is how many it keeps
	// of an entry at most.
	Bucket map[Entry][]Version
	Kept   int
	// Final is what each host answers for each entry in the end, and Listed is its listing's: without
	// values. An entry that it does not hold is not in them.
	Final  []map[Entry]State
	Listed []map[Entry]State
	Cuts   []Cut
}
