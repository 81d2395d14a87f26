package api

import (
	"time"
)

// WriteEvent is an event about a write: GET /_botwired/events. docs/http.md has the names of the
// events.
type WriteEvent struct {
	At        float64 `json:"at"` // Unix seconds
	Seq       uint64  `json:"seq"`
	Namespace string  `json:"namespace"`
	Key       string  `json:"key"`
	Op        string  `json:"op"` // "put" or "delete"
	Bytes     int     `json:"bytes"`
	Author    string  `json:"author,omitempty"` // of the event pending; left out if unknown
	By        *uint64 `json:"by,omitempty"`     // the write through this daemon that superseded this one; left out if there is none
	Reason    string  `json:"reason,omitempty"`
}

// ChangedEvent is an event about an entry that another host has changed.
type ChangedEvent struct {
	At        float64 `json:"at"` // Unix seconds
	Namespace string  `json:"namespace"`
	Key       string  `json:"key"`
}

// UpstreamEvent is an event about the health of upstream.
type UpstreamEvent struct {
	At     float64 `json:"at"` // Unix seconds
	State  string  `json:"state"`
	Since  float64 `json:"since"` // Unix seconds
	Reason string  `json:"reason"`
}

// ResetEvent tells the reader that it has missed events.
type ResetEvent struct {
	At     float64 `json:"at"` // Unix seconds
	Reason string  `json:"reason"`
}

// AnsweredRequest is an answered request to the memory API: GET /_botwired/monitor.
type AnsweredRequest struct {
	At           float64  `json:"at"` // when it arrived, in Unix seconds
	Method       string   `json:"method"`
	Path         string   `json:"path"`
	Namespace    string   `json:"namespace"`
	Key          string   `json:"key"`
	Status       int      `json:"status"`
	Answered     string   `json:"answered"`
	AgeSeconds   *float64 `json:"age_seconds"` // null if the answer has no age
	Microseconds int64    `json:"microseconds"`
	Bytes        int      `json:"bytes"`
}

// Skipped says that requests came faster than a reader of the monitor could read them.
type Skipped struct {
	Requests uint64 `json:"requests"`
}

// Pending lists pending writes, longest waiting first: GET /_botwired/pending.
type Pending struct {
	Pending []PendingWrite `json:"pending"`
}

// RestoredAt is the time of a write that the restore of a namespace has made: it gives way to any other state.
const RestoredAt = 1

// PendingWrite is a write that upstream has not confirmed yet.
type PendingWrite struct {
	Seq         uint64     `json:"seq"`
	Namespace   string     `json:"namespace"`
	Key         string     `json:"key"`
	Op          string     `json:"op"` // "put" or "delete"
	Bytes       int        `json:"bytes"`
	Author      string     `json:"author"`     // "" if unknown
	WrittenAt   float64    `json:"written_at"` // Unix seconds, or [RestoredAt]
	Since       float64    `json:"since"`      // Unix seconds: when upstream first lacked a state of the entry
	Attempts    int        `json:"attempts"`
	LastError   string     `json:"last_error"`
	NextAttempt *time.Time `json:"next_attempt_at"` // null while an attempt is in flight
	Waits       *Wait      `json:"waits"`           // null if it waits for nothing
}

// Flushed counts the writes acknowledged before a flush, by outcome: POST /_botwired/flush.
type Flushed struct {
	Settled int             `json:"settled"`
	Dead    int             `json:"dead"`
	Pending int             `json:"pending"`
	Waits   []NamespaceWait `json:"waits,omitempty"` // for the pending writes
}

// Receipt says what happened to a write: GET /_botwired/receipts/SEQ.
type Receipt struct {
	Seq       uint64   `json:"seq"`
	Namespace string   `json:"namespace"`
	Key       string   `json:"key"`
	Op        string   `json:"op"`
	Author    string   `json:"author"`     // "" if unknown, or if its version is no longer kept
	State     string   `json:"state"`      // "pending", "settled", "superseded" or "dead"
	WrittenAt float64  `json:"written_at"` // Unix seconds, or [RestoredAt]
	SettledAt *float64 `json:"settled_at"` // Unix seconds; null while pending
	By        *uint64  `json:"by"`         // null unless a later write through this daemon superseded it
	Reason    string   `json:"reason"`
}

// Receipts lists the receipts of the newest writes that have ended, newest first: GET /_botwired/receipts.
type Receipts struct {
	Receipts []Receipt `json:"receipts"`
}

// DeadLetters lists dead letters: GET /_botwired/dead-letters.
type DeadLetters struct {
	DeadLetters []ListedDeadLetter `json:"dead_letters"`
}

// ListedDeadLetter is a write that upstream refused for good, or that a user dropped. It has no value.
type ListedDeadLetter struct {
	ID           string  `json:"id"`
	Kind         string  `json:"kind"`                    // "refused", or "dropped" by a user
	SupersededBy uint64  `json:"superseded_by,omitempty"` // a later write to the entry that has settled
	Seq          uint64  `json:"seq"`
	Namespace    string  `json:"namespace"`
	Key          string  `json:"key"`
	Op           string  `json:"op"`
	Author       string  `json:"author"` // "" if unknown
	Status       int     `json:"status"`
	Error        string  `json:"error"`
	WrittenAt    float64 `json:"written_at"` // Unix seconds, or [RestoredAt], by the writer's clock
	RefusedAt    float64 `json:"refused_at"` // Unix seconds
}

// DeadLetter is a dead letter with its value: GET /_botwired/dead-letters/ID.
type DeadLetter struct {
	ListedDeadLetter
	Value *string `json:"value"` // null for a delete
}

// Retried counts dead letters that were made pending again: POST /_botwired/dead-letters/retry.
type Retried struct {
	Retried int `json:"retried"`
	Skipped int `json:"skipped"` // a retry would undo a newer write, or upstream did not refuse them
}

// Dropped is a pending write that became a dead letter: POST /_botwired/pending/drop.
type Dropped struct {
	Dropped   bool   `json:"dropped"` // true
	ID        string `json:"id"`      // of the dead letter
	Key       string `json:"key"`
	Namespace string `json:"namespace"`
	Seq       uint64 `json:"seq"`
}

// Restoration is the progress of restoring a namespace that upstream has lost: POST /_botwired/restore.
type Restoration struct {
	Namespace string `json:"namespace"`
	State     string `json:"state"` // "running" or "over"
	RestoreCounts
	Left  int   `json:"left"`  // entries that upstream does not have yet
	Waits *Wait `json:"waits"` // why nothing is sent now; null if nothing waits
}

// RestoreCounts counts the entries of a restoration.
type RestoreCounts struct {
	Restored int `json:"restored"` // upstream has them again
	Kept     int `json:"kept"`     // upstream had another state after all, and keeps it
	Failed   int `json:"failed"`   // upstream refused them
	Uncopied int `json:"uncopied"` // upstream no longer has them, and the daemon has no copy: they are lost
}

// Accepted says that the daemon trusts upstream again: POST /_botwired/restore or /_botwired/forget for
// all namespaces.
type Accepted struct {
	Lost       string   `json:"lost"`       // why upstream was not trusted; "" if it was
	Namespaces []string `json:"namespaces"` // namespaces to restore upstream, by name
	Uncopied   int      `json:"uncopied"`   // entries of these that upstream no longer has, and of which there is no copy: they are lost
}

// Forgotten says how many copies the daemon dropped when it accepted upstream's state of a namespace:
// POST /_botwired/forget.
type Forgotten struct {
	Forgotten     int    `json:"forgotten"`
	Namespace     string `json:"namespace"`
	UpstreamHolds int    `json:"upstream_holds"`
}

// ForgottenEntry says how many copies of an entry the daemon dropped, at most 1: POST /_botwired/forget
// with a key.
type ForgottenEntry struct {
	Forgotten int    `json:"forgotten"`
	Key       string `json:"key"`
	Namespace string `json:"namespace"`
}

// Purged says what a purge has removed so far: POST /_botwired/purge.
type Purged struct {
	Namespace string        `json:"namespace"`
	Key       string        `json:"key,omitempty"`
	Done      bool          `json:"done"`            // false: the same request, with AsOf, goes on with it
	Why       string        `json:"why,omitempty"`   // why it is not done
	Waits     *Wait         `json:"waits,omitempty"` // what its deletes wait for
	AsOf      uint64        `json:"as_of"`           // writes with a higher number stay
	Deleted   int           `json:"deleted"`         // entries deleted upstream by this request
	Dropped   int           `json:"dropped"`         // pending writes dropped, with local
	Pending   int           `json:"pending"`         // entries that were written meanwhile: their newest values stay
	Removed   PurgedRecords `json:"removed"`         // from the daemon's disk
	// NotReached names what the purge cannot reach, once it is done.
	NotReached []string `json:"not_reached,omitempty"`
}

// PurgedRecords counts records that a purge has removed from the daemon's disk.
type PurgedRecords struct {
	Copies      int `json:"copies"`
	Versions    int `json:"versions"`
	DeadLetters int `json:"dead_letters"`
	Receipts    int `json:"receipts"`
}

// RetriedLetter is a dead letter that is pending again: POST /_botwired/dead-letters/ID/retry.
type RetriedLetter struct {
	ID      string `json:"id"`
	Retried bool   `json:"retried"` // true
	Seq     uint64 `json:"seq"`     // of the new write
}

// DeletedLetter is a dead letter that was deleted: DELETE /_botwired/dead-letters/ID.
type DeletedLetter struct {
	Deleted bool   `json:"deleted"` // true
	ID      string `json:"id"`
}
