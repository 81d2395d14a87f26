// Package queue holds what botwired owes: the acknowledged writes that upstream has not confirmed yet, the dead letters,
// what requests may have left upstream, and, for a day, the receipts of the writes that have ended and the names of the
// requests that made them.
//
// Nothing of it may be lost. A record that cannot be read ends the process: see [store.Store.Owed].
//
// # A write
//
// The file append.go tells how one comes in. [Queue.Ready] has the index know the entry. In the order of all writes, the
// change reserves room: the budget and the disk decide there, and nothing is written of a write that they refuse. Then the
// change adds the write to the gathering batch, with its version and, if it takes the place of an older one, that one's
// receipt. One sync makes the batch durable: it is the commit point. Only then [Queue.Append] returns, and readers see the
// write.
//
// The file retire.go tells how one goes: a [Retiring] removes the pending record, adds the receipt, and adds what the other
// room knows of the outcome, in one batch.
//
// # What readers see
//
// [Readers] is the lock of that. The index has each entry's newest write, visible or still in sync; a reader gets the newest
// visible one. The index is complete once [Queue.Rebuild] has read the store. Before that, each lookup reads the entry's own
// records first.
//
// The package knows nothing of copies, listings and versions other than those of pending writes.
package queue
