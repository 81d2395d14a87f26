// Package journal is the durable store of botwired. It keeps the acknowledged writes that upstream has
// not confirmed yet, the last known upstream state of entries and listings, the dead letters, for a day
// the receipts of writes that have ended, and the older versions of entries. One process at a time owns
// the journal's directory.
//
// # What it promises
//
//   - [Journal.Append] returns nil only after the write is fsynced, and the write
//     becomes visible to readers only then (contract 1).
//   - When the disk fails, the journal calls Options.Fatal and acknowledges nothing
//     more (contract 2). It never retries fsync.
//   - When the budget or the disk is full, Append returns [ErrFull] before
//     anything is written, and works again once there is room (contract 3).
//   - All callers see the writes to an entry in one order, the order of their
//     sequence numbers (contract 5). Callers that write at the same time share a batch
//     and its fsync.
//   - While upstream has no room for more in a namespace, its pending writes take a part of the
//     budget: beyond it, Append returns a [NamespaceFullError] before anything is written (contract 18).
//   - A write leaves the pending set only by [Journal.Settle], by [Journal.DeadLetter], by
//     [Fence.Lose], or because a newer write to the same entry took its place (contract
//     13). In the same batch it leaves a receipt.
//   - When two hosts' states of an entry conflict, the journal durably keeps the loser, as a version of
//     the entry that is lost, before the loser is gone (contract 17); see [Fence].
//
// It knows nothing about HTTP, retries or the kind of upstream. A dead letter keeps the status
// with which upstream refused the write; the journal does not interpret it.
//
// # Rooms
//
// The journal is a façade over two rooms that share one store:
//
//	journal           opens the store, and tells the stories in which both rooms have a part
//	queue             pending writes, admission, dead letters, receipts, names of requests
//	entries           settled copies, listings, versions, retention, eviction
//	internal/pending  the index of pending writes: pure memory
//	internal/store    one order, one sync for all, marks and checks, over Pebble
//	internal/walk     keys and namespaces in order, from a snapshot
//	internal/record   keys, values and checksums, byte by byte: pure
//	internal/recovery examines and salvages directories
//
// The entries know the queue, because a pending write says what an entry is; the queue does not know the entries. Both have a
// part in these stories, which the façade tells: a delete and a retry (append.go), a write's end (settle.go), a lookup
// (lookup.go), room on the disk (maintain.go), and a purge (purge.go).
//
// # Damage
//
// The journal ends the process when it cannot read a pending write, its value, a dead letter or what was sent
// ([store.Store.Owed]). It takes any other damaged record for a missing one, and status says so ([store.Store.Damaged]). The
// process also ends when maintenance or a merge of tables meets damage, because neither could go on. The next start mends the
// journal if it can read all that is owed, and refuses otherwise (contract 4). record.Kinds says which records are owed.
//
// # Room
//
// Of the free space, the store knows three bounds. With less than the reserve and the write's size, Append returns [ErrFull],
// and no new copy is kept. With less than the reserve, upkeep gives up the settled copies but for those used last, then the
// versions that nothing needs, and then the receipts. With less than a quarter of it, nothing is sent upstream. Pending writes,
// dead letters, what is lost, what was sent and the listings stay.
//
// # Locks
//
// Callers take the locks in this order. They hold none for longer than it takes to change
// some hundreds of entries in memory, regardless of the number of pending writes:
//
//   - a namespace's copies lock: settled copies and listings of the namespace change one
//     after the other, and are read from the disk before the next lock is taken;
//   - the store's order lock: all changes have one order;
//   - the readers' lock: readers see a consistent state;
//   - one of the innermost locks, whose holders take no other lock: those of [Listings], the
//     index of dead letters, the losses, the generations of receipts, and [Trust].
package journal
