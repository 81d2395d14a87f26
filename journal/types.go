package journal

import (
	"errors"

	"github.com/botwired/botwired/journal/entries"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// What both rooms speak of.
type (
	// ID names an entry: one value under a namespace and a key.
	ID = record.ID
	// Op is a kind of write: a put or a delete.
	Op = record.Op
	// Content is the state in which a write leaves its entry, without the value.
	Content = record.Content
	// Base is the state that upstream holds until a write replaces it.
	Base = record.Base
	// Observation is a present entry as upstream showed it.
	Observation = record.Observation
	// Row is one line of a listing.
	Row = record.Row
	// Origin says which of this journal's writes made a state upstream.
	Origin = record.Origin
)

// What the queue speaks of.
type (
	// NewWrite is a write to journal.
	NewWrite = queue.NewWrite
	// Write is one acknowledged write.
	Write = queue.Write
	// Request names a request, for callers that repeat theirs.
	Request = queue.Request
	// Pending is a pending write without its value.
	Pending = queue.Pending
	// DeadKind is the reason why a write is a dead letter.
	DeadKind = queue.DeadKind
	// DeadLetter is an acknowledged write that upstream has refused, or that a person has dropped.
	DeadLetter = queue.DeadLetter
	// Failure says why a write becomes a dead letter.
	Failure = queue.Failure
	// NamespaceStats is a namespace's part of [Stats].
	NamespaceStats = queue.NamespaceStats
	// Change tells the subscriber that the known state of an entry has changed.
	Change = queue.Change
	// Ending says how a write has left the pending set.
	Ending = queue.Ending
	// NamespaceFullError refuses a put to a namespace that is full upstream.
	NamespaceFullError = queue.NamespaceFullError
	// Receipt tells the outcome of one acknowledged write.
	Receipt = queue.Receipt
	// ReceiptState is the outcome of a write.
	ReceiptState = queue.ReceiptState
	// Receipts finds the outcome of each write.
	Receipts = queue.Receipts
	// Purged counts what a purge has removed.
	Purged = queue.Purged
)

// What the entries speak of.
type (
	// State is an entry as the journal knows it.
	State = entries.State
	// Kind says how the state of an entry is known.
	Kind = entries.Kind
	// Listing is upstream's last listing of a namespace.
	Listing = entries.Listing
	// ListingFill takes upstream's listing of a namespace into the journal.
	ListingFill = entries.ListingFill
	// FillOption changes what [Journal.Fill] keeps.
	FillOption = entries.FillOption
	// Trust decides which of upstream's answers count.
	Trust = entries.Trust
	// LossLimit bounds how many entries upstream may lack at once.
	LossLimit = entries.LossLimit
	// Rejection says why the journal does not accept an answer of upstream.
	Rejection = entries.Rejection
	// Suspect describes a namespace of which upstream seems to have lost entries.
	Suspect = entries.Suspect
	// Fence compares writes with other hosts' states.
	Fence = entries.Fence
	// Keys walks the known keys.
	Keys = entries.Keys
	// KnownKey is a known key.
	KnownKey = entries.KnownKey
	// Known is a known entry, without its value.
	Known = entries.Known
	// Listings reads the settled listings.
	Listings = entries.Listings
	// History reads the versions of entries.
	History = entries.History
	// Past is one version of an entry.
	Past = entries.Past
	// PastState says what became of a version.
	PastState = entries.PastState
	// Changed is an entry that was written after a time.
	Changed = entries.Changed
	// Gap says why it is not known what an entry was.
	Gap = entries.Gap
	// Disk reports the journal's disk usage.
	Disk = entries.Disk
	// DiskUsage is that usage, in bytes.
	DiskUsage = entries.DiskUsage
)

// The kinds of writes.
const (
	Put    = record.Put
	Delete = record.Delete
)

// The states of a [Receipt].
const (
	ReceiptPending    = record.ReceiptPending
	ReceiptSettled    = record.ReceiptSettled
	ReceiptSuperseded = record.ReceiptSuperseded
	ReceiptDead       = record.ReceiptDead
)

// The kinds of a [DeadLetter].
const (
	Refused = record.Refused
	Dropped = record.Dropped
)

// How long receipts are kept: at least for ReceiptsFor, while there are at most ReceiptsKept.
const (
	ReceiptsFor  = queue.ReceiptsFor
	ReceiptsKept = queue.ReceiptsKept
)

// The kinds of a [State]: see [entries.Kind].
const (
	Unknown = entries.Unknown
	Settled = entries.Settled
	Value   = entries.Value
	Gone    = entries.Gone
	Absent  = entries.Absent
)

// The options of [Journal.Fill]: see [entries.FillOption].
const (
	NoNewCopy = entries.NoNewCopy
	Listed    = entries.Listed
)

// Why an answer is not accepted: see [entries.Rejection].
const (
	NotRejected = entries.NotRejected
	OlderAnswer = entries.OlderAnswer
	DataLoss    = entries.DataLoss
)

// The states of a [Past]: see [entries.PastState].
const (
	PastPending    = entries.PastPending
	PastCurrent    = entries.PastCurrent
	PastSettled    = entries.PastSettled
	PastSuperseded = entries.PastSuperseded
	PastDead       = entries.PastDead
	PastShown      = entries.PastShown
	PastLost       = entries.PastLost
	PastGone       = entries.PastGone
)

// The reasons of a [Gap]: see [entries.Gap].
const (
	GapUnread    = entries.GapUnread
	GapForgotten = entries.GapForgotten
	GapDamaged   = entries.GapDamaged
	GapUnsealed  = entries.GapUnsealed
)

// UsualLossLimit is the limit of most namespaces.
var UsualLossLimit = entries.UsualLossLimit

// ContentOf returns the content that a write leaves.
func ContentOf(op Op, value string) Content { return record.ContentOf(op, value) }

var (
	// ErrInUse says that another process has the directory open.
	ErrInUse = store.ErrInUse
	// ErrClosed says that Close was called.
	ErrClosed = store.ErrClosed
	// ErrFailed says that the disk failed; the process is about to end.
	ErrFailed = store.ErrFailed
	// ErrCorrupt says that the store does not hold what it should.
	ErrCorrupt = record.ErrCorrupt
	// ErrMendable says that the journal in a directory is damaged, and that the next start mends it.
	ErrMendable = errors.New("damaged, and the next start mends it: every pending write and dead letter can be read")
	// ErrFormat says that this version of botwired cannot read the directory's format.
	ErrFormat = store.ErrFormat
	// ErrFull refuses a write because the budget or the disk is full: nothing was written, and the same write may be
	// accepted later (contract 3).
	ErrFull = queue.ErrFull
	// ErrChanged says that a condition no longer holds, or that an answer from upstream is outdated: look up the entry and decide again.
	ErrChanged = queue.ErrChanged
	// ErrNewer refuses a [Journal.Retry] that would undo a newer write to the entry.
	ErrNewer = queue.ErrNewer
	// ErrNoWrite says that no write has had this sequence number yet.
	ErrNoWrite = queue.ErrNoWrite
	// ErrNoReceipt says that the receipt of a write is no longer kept.
	ErrNoReceipt = queue.ErrNoReceipt
	// ErrRebuilding says that the journal does not know all pending writes yet.
	ErrRebuilding = queue.ErrRebuilding
	// ErrNotPending says that no such write to the entry is pending.
	ErrNotPending = errors.New("no such write is pending")
	// ErrNoDeadLetter says that no dead letter has this number.
	ErrNoDeadLetter = queue.ErrNoDeadLetter
	// ErrOlder rejects an answer of upstream that is older than a state that was known here.
	ErrOlder = entries.ErrOlder
	// ErrPending refuses to forget an entry that has a pending write.
	ErrPending = entries.ErrPending
)
