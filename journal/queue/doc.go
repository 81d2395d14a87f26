// Package queue holds what botwired owes: the acknowledged writes that upstream has not confirmed yet, the dead letters,
// what requests may have left upstream, and, for a day, the receipts of the writes that have ended and the names of the
// requests that made them.
//
// A pending write, a dead letter and what was sent may not be lost: a record of them that cannot be read ends the process
// ([store.Store.Owed]), and the next start says what is to be done. A damaged receipt counts as missing.
//
// # A write
//
// append.go tells how one comes in. [Queue.Ready] loads the entry into the index. In the order of all writes, the change
// looks at the write's condition, the budget and the disk: nothing is written of a write that they refuse. Then the change adds
// the write to the gathering batch, with its version, and, if it takes the place of an older one, with that one's receipt. One
// sync makes the batch durable: that is the commit point, in [store.Store.Update]. Only after it the readers see the write, and
// [Queue.Append] returns.
//
// sent.go keeps what requests may have left upstream. retire.go tells how a write ends, in one batch with what the other room
// knows of the outcome:
//
//	                    settled        beaten by another host   dead letter
//	pending record      goes           goes                     goes
//	receipt             comes          comes                    comes
//	what is left        goes           goes                     stays, with this write's
//	dead letters        are marked     –                        one comes
//	copy and row        are the write  are the other's          go if upstream may hold the write
//	version             is the copy's  is lost                  stays
//
// If a newer write is pending, the record and the receipt stay as that one's batch has left them, and a dead letter changes
// nothing.
//
// # Files
//
//	queue.go      [Queue], the budget, what readers see of an entry
//	append.go     how a write comes in, and a dead letter that is retried
//	sent.go       what was sent, and may have left something upstream
//	retire.go     how a write ends
//	letters.go    dead letters
//	receipts.go   receipts and names; generations.go removes the old ones
//	readers.go    the lock of what readers see
//	rebuild.go    the index after a start
//	read.go       a pending write with its value; list.go, stats.go and refusal.go tell of all
//	purge.go      what a person removes for good
package queue
