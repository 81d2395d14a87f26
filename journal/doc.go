// Package journal is the durable store of botwired. It keeps the acknowledged writes that
// upstream has not confirmed yet, the last known upstream state of entries and listings, the
// dead letters, and for a day the receipts of writes that have ended. It is one directory, owned
// by one process at a time.
//
// # What it promises
//
//   - [Journal.Append] returns nil only after the write is fsynced, and the write
//     becomes visible to readers only then (contract 1).
//   - When the disk fails, Options.Fatal is called and nothing is acknowledged
//     any more (contract 2). fsync is never retried.
//   - When the budget or the disk is full, Append returns [ErrFull] before
//     anything is written, and works again once there is room (contract 3).
//   - All callers see the writes to an entry in one order, the order of their
//     sequence numbers (contract 5). Callers that write at the same time share a batch
//     and its fsync.
//   - Append takes no write that makes a namespace larger than about its limit (contract 18). It
//     returns a [NamespaceFullError] before anything is written; see [Sizes].
//   - A write leaves the pending set only by [Journal.Settle], by [Journal.DeadLetter], by
//     [Fence.Lose], or because a newer write to the same entry took its place (contract
//     13). In the same batch it leaves a receipt.
//   - Of two hosts' states of an entry, the journal keeps the loser, with its time and the
//     winner, durably, before the loser is gone (contract 17); see [Fence].
//
// It knows nothing of HTTP, of retries or of upstream's kind. A dead letter keeps the status
// with which upstream refused the write; the journal does not interpret it.
//
// # Layers
//
//	journal           the API
//	internal/pending  the index of pending writes: pure memory
//	internal/store    one order, one sync for all, marks and checks, over Pebble
//	internal/walk     keys and namespaces in order, from a snapshot
//	internal/record   keys, values and checksums, byte by byte: pure
//	internal/recovery examines, salvages and migrates directories
//
// A PUT goes straight down and up: [Journal.Append] hands the store a change; the store
// gives the change its place in the order; the change admits the write and puts it into
// the gathering batch; one sync makes the batch durable; the change shows the write in the
// index.
//
// # Locks
//
// Callers take the locks in this order, and hold none for longer than it takes to change
// some hundreds of entries in memory, whatever the number of pending writes:
//
//   - a namespace's copies lock: settled copies and listings of the namespace change one
//     after the other, and are read from the disk before the next lock is taken;
//   - the store's order lock: all changes have one order;
//   - the readers' lock: readers see one state;
//   - one of the innermost locks, whose holders take no other: of [Sizes], the index of dead
//     letters, the generations of receipts, the doubts, [Trust], or the garbage.
package journal
