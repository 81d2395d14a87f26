package queue

import (
	"errors"
	"fmt"

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

// Base is the state that upstream holds until the pending write replaces it, as far as the journal
// knows.
type Base = record.Base

// NewWrite is a write to journal.
type NewWrite struct {
	ID
	Op        Op
	Value     string
	ListBytes int // the size that a listing gives for Value
	// If, when not nil, decides in the order of all writes whether to continue. newest is the sequence
	// number of the entry's newest pending write; 0 if there is none. If the answer is false, the
	// journal refuses the write with [ErrChanged]. The journal may call If more than once; the last
	// answer counts. If must be quick and must not call the journal.
	If func(newest uint64) bool
	// Author names the program that writes, as far as it is known; only the history shows it.
	Author string
	// WrittenAt is the time of the write in Unix seconds of the wall clock; 0 means now. The fence
	// compares this time.
	WrittenAt float64
	// At, if not 0, becomes the write's UpdatedAt, in Unix seconds: upstream has confirmed the write
	// with this time, or has shown this time for the state that the write copies. UpdatedAt is never
	// earlier than that of the entry's pending write.
	At float64
	// LosesTies marks a copy of an older state: if another host's state beats it, nobody's write is lost.
	LosesTies bool
	// Fenced makes the flusher compare the write with upstream before it sends it, even just after it has
	// sent another one, and by WrittenAt.
	Fenced bool
	// Over, if not nil, is the only state that the write may replace upstream, beside those of this journal's
	// own writes. If the write loses to another state, its version is not marked as lost: its caller was not told
	// that it was made.
	Over *Base
	// Request, if not nil, is the caller's name for this write: [Receipts.Request] finds it for as long as the
	// receipt of a write that ends now is kept. The journal sets its ID and Op.
	Request *Request
}

// Request names a request, for callers that repeat theirs.
type Request = record.Request

// Write is one acknowledged write. Times are Unix seconds, as BotWire prints them.
type Write struct {
	ID
	Seq       uint64 // position in the order of all writes of this journal
	Op        Op
	Value     string  // empty for a delete
	ListBytes int     // the size that a listing gives for Value
	UpdatedAt float64 // when it was journaled; never before the entry's previous write
	WrittenAt float64 // when the caller wrote, by the wall clock at that time; it may go back
	Since     float64 // when the entry began to wait, not later than its oldest unsettled write
	LosesTies bool    // see NewWrite.LosesTies
	Fenced    bool    // see NewWrite.Fenced; a newer write to the entry inherits it
	Over      *Base   // see NewWrite.Over; only [Queue.Newest] sets it
	Author    string  // see NewWrite.Author
	// SentAfter is for Journal.Settle: upstream cannot have carried out the write before this time,
	// by upstream's clock; 0 if unknown.
	SentAfter float64
	// CreatedAt is for Journal.Settle: upstream's created_at of the entry, in Unix seconds; 0 if
	// unknown.
	CreatedAt float64
	// MadeAt is for Journal.Settle: the time that the version upstream names; 0 if it names none.
	MadeAt float64

	// Lineage is for Journal.Settle: the journal sets it, and nobody else looks into it.
	Lineage Lineage
}

// Lineage says how a write stands to the others of its entry.
type Lineage struct {
	FirstPutAt  float64 // Unix seconds: when the entry was first put, or first put after a delete
	AfterDelete bool    // a delete came before it: the settled copy is of an older entry
	// At and Follows are those of the write's version; At is 0 if they are unknown.
	At      float64
	Follows uint64
	// Removals counts the changes that had removed versions when the store was seen to hold the write's; 0 if it was not.
	Removals int64
}

func writeOf(id ID, v *record.Pending, value, author string) Write {
	return Write{
		ID: id, Seq: v.Seq, Op: v.Op, Value: value, Author: author, ListBytes: int(v.ListBytes), UpdatedAt: v.UpdatedAt,
		WrittenAt: v.WrittenAt, Since: v.Since, LosesTies: v.LosesTies, Fenced: v.Fenced,
		Lineage: Lineage{FirstPutAt: v.CreatedAt, AfterDelete: v.AfterDelete},
	}
}

// Pending is a pending write without its value.
type Pending struct {
	ID
	Seq       uint64
	Op        Op
	Bytes     int     // length of the value in UTF-8
	ListBytes int     // the size that a listing gives
	UpdatedAt float64 // Unix seconds
	WrittenAt float64 // Unix seconds: see [Write]
	Since     float64 // Unix seconds: when the entry began to wait, not later than its oldest unsettled write
	LosesTies bool    // see NewWrite.LosesTies
}

// DeadKind is the reason why a write is a dead letter.
type DeadKind = record.DeadKind

// The kinds of a [DeadLetter].
const (
	Refused = record.Refused
	Dropped = record.Dropped
)

// DeadLetter is an acknowledged write that upstream has refused, or that a person has dropped. It is kept for a person to
// decide on.
type DeadLetter struct {
	Write
	Kind DeadKind
	// SupersededBy is the sequence number of this journal's later write to the entry that has settled; 0 if there is none.
	SupersededBy uint64
	Status       int     // see Failure.Status
	Error        string  // the reason; never holds a value
	RefusedAt    float64 // Unix seconds
}

// Change tells the subscriber that the known state of an entry has changed.
type Change struct {
	ID
	Seq     uint64 // of the write concerned
	Written bool   // a new write became visible
	Op      Op     // of the new write
	Bytes   int    // length of the new write's value in UTF-8
	Author  string // of the new write; empty for one that is Found
	Found   bool   // the write is from an earlier process and was just found in the store
	Ended   Ending // how a write has left the pending set; Ending.Seq is 0 if none has
}

// Ending says how a write has left the pending set. Each write gets one, unless the process ends first;
// its receipt says the same.
type Ending struct {
	Seq     uint64 // of the write; 0 if none has ended
	Op      Op
	Bytes   int          // length of its value in UTF-8
	State   ReceiptState // not ReceiptPending
	Dropped bool         // a person has dropped it; State is ReceiptDead
	By      uint64       // sequence number of this journal's later write that has superseded it; 0 if there is none
	Reason  string       // for people; never holds a value
}

func endingOf(v *record.Pending, state ReceiptState) Ending {
	return Ending{Seq: v.Seq, Op: v.Op, Bytes: int(v.Bytes), State: state}
}

// NamespaceFullError refuses a put with which the pending writes of a namespace that is full upstream would take more
// than their share of the budget. Nothing was written.
type NamespaceFullError struct {
	Namespace     string
	Pending, Most int64 // bytes of the budget that they take, and may take
}

func (e *NamespaceFullError) Error() string {
	return fmt.Sprintf("namespace %s is full upstream, and its pending writes take %s of the %s that they may take then (an eighth of journal.max_bytes). "+
		"Delete entries: deletes go upstream, and the writes follow", e.Namespace, mebibytes(e.Pending), mebibytes(e.Most))
}

var (
	// ErrFull refuses a write because the budget or the disk is full. Nothing was
	// written; the same write may be accepted later (contract 3).
	ErrFull = errors.New("journal full")
	// ErrChanged says that the condition of a [Queue.Append] no longer held, or that an answer from
	// upstream is outdated: look up the entry and decide again.
	ErrChanged = errors.New("entry changed meanwhile")
	// ErrNewer refuses a [Queue.Retry] that would undo a newer write to the entry.
	ErrNewer = errors.New("a newer write to the entry is known")
	// ErrNoWrite says that no write has had this sequence number yet.
	ErrNoWrite = errors.New("no such write yet")
	// ErrNoReceipt says that the receipt of a write is no longer kept.
	ErrNoReceipt = errors.New("the receipt is not kept any more")
	// ErrRebuilding says that the journal does not know all pending writes yet.
	ErrRebuilding = errors.New("the journal is still being read")
	// ErrNoDeadLetter says that no dead letter has this number.
	ErrNoDeadLetter = errors.New("no such dead letter")
)
