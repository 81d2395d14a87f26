// Package store keeps records in a Pebble store: it puts updates in one order, makes concurrent updates
// durable with one sync, detects damage, and ends the process when the disk fails.
//
// # Updates
//
// All changes go through [Store.Update]. An update adds its part to the gathering batch, under a lock
// that puts all updates in order. The batch's group is applied to Pebble and synced. Then the changes
// become visible to readers, in order, and all callers of the group return. If no sync is in progress,
// a caller starts one at once. Callers that arrive during a sync share the next one. Every batch also
// rewrites the state record, which counts the store's records.
//
// Pebble panics about some failures on its own goroutines. Package diskfs notices a failing log or
// directory first, so that the store calls Options.Fatal and the process ends with one line. There is
// one exception: when the disk fails during [Open], Pebble closes its cache while its own goroutine
// still reads tables, and the process ends with stacks and a non-zero code. Nothing has been
// acknowledged then, and the disk is left as after a kill.
//
// # Files
//
// FORMAT in the directory holds one line, "botwired journal 6", and is read before anything else is
// touched. It is written last, when the store is complete.
//
// MARK is the high-water mark. It has two slots, at 0 and 4096, which are written in turn. The slot
// with the higher round is used (all u64 and u32 little-endian):
//
//	u64 round  u64 seq  u64 batches  u64 number of the manifest
//	u64 length of the manifest  u32 CRC-32C of that much of it
//	u32 CRC-32C of "MARK" and the fields before
//
// It is written when the store is opened and closed, and by a timer a second after the first batch since
// the last mark. All applied changes are made durable first, so that the mark is never ahead of the
// store. No acknowledgement waits for it.
//
// ROOM takes room for a moment, to try if there is any. Nothing in it counts. DAMAGE names what was found damaged
// since the store was opened, for the next start.
//
// Pebble's logs have their full length before anything is written to them. After their last record they
// contain zeros, or data of an earlier use. The layout of the records is in package record.
//
// # Damage
//
// [Examine] returns [record.ErrCorrupt] for these, before Pebble changes anything:
//
//   - a store whose logs and tables are behind its mark
//   - a manifest that does not match the mark
//   - a log that is missing, or that ends before its trailer
//   - a gap between the numbers of the records in the logs
//   - pending writes, their values and dead letters that are not those that the state record counts
//   - a damaged block of a table that holds more than copies, receipts and versions; of any table, if an
//     earlier process has found damage
//
// A read returns [record.ErrCorrupt] for a record or block with a wrong checksum. The store is not mended while it is open.
// A merge of tables that meets damage ends the process, and so does the upkeep of the journal.
//
// The store does not notice these kinds of damage:
//
//   - After an unclean end, the loss of the end of the last log, if it is younger than
//     the mark (at most a second): it looks like a write that was in flight.
//   - The replacement of a table by another one of the same size.
//   - The return of the whole directory, including MARK, to an earlier state: nothing in
//     the directory shows it.
package store
