// Package store keeps records in a Pebble store: it puts updates in one order, makes those of
// callers who come at the same time durable by one sync, notices damage, and ends the
// process when the disk fails.
//
// # Updates
//
// [Store.Update] is the one way in. An update fills its part into the batch that gathers,
// under a lock that puts all updates in order; the batch's group is applied to Pebble and
// synced; then the updates' changes become visible to readers, in order, and all callers of
// the group return. A caller that comes while no sync is under way starts one at once.
// Callers that come during a sync share the next one. Every batch also rewrites the state
// record, which says what the store holds.
//
// Package diskfs notices a log or a directory that fails before Pebble does, which panics
// about some failures on a goroutine of its own. So the store calls Options.Fatal first, and
// the process ends with one line. In one case it ends with stacks and a non-zero code
// instead: when the disk fails during [Open], Pebble closes its cache under a goroutine of
// its own that still reads tables. Nothing has been acknowledged then, and the disk is left
// as by a kill.
//
// # Files
//
// FORMAT in the directory holds one line, "botwired journal 5", and is read before
// anything else is touched; it is made last, when the store is complete.
//
// MARK is the high-water mark: two slots, at 0 and 4096, that are written in turn. The slot with
// the higher round counts (all u64 and u32 little-endian):
//
//	u64 round  u64 seq  u64 batches  u64 number of the manifest
//	u64 length of the manifest  u32 CRC-32C of that much of it
//	u32 CRC-32C of "MARK" and the fields before
//
// It is written when the store is opened and closed, and within a second after a
// batch, by a timer: all that was applied is made durable first, so that the mark is
// never ahead of the store. No acknowledgement waits for it.
//
// Pebble's logs are as long as they may get before anything is written to them, and read
// as zeros behind their last record, or as what they held in an earlier use. The layout of
// the records is in package record.
//
// # Damage
//
// These are [record.ErrCorrupt] at [Open], before Pebble changes anything:
//
//   - a store that is behind its mark, by what its logs and tables say
//   - a manifest that is not the one that the mark knows
//   - a log that is missing, or that ends before its trailer
//   - a gap between the numbers of the records in the logs
//
// A record or a block whose checksum does not hold, and records that do not add up to the
// state record, are [record.ErrCorrupt] when the records are read. Damage that Pebble meets
// ends neither the process nor the merging of tables for good: [Store.Repair] replaces the
// damaged table. [Store.FindDamage] looks for damage in what is no copy, where nobody but a
// merge of tables may read it: in old versions of records.
//
// The store does not notice these kinds of damage:
//
//   - After an unclean end, the loss of the end of the last log as far as it is
//     younger than the mark, which is a second: it cannot be told from a write that
//     was under way.
//   - A table in whose place there is another one of the same size.
//   - The return of the whole directory, MARK included, to an earlier time: nothing in
//     the directory can tell.
package store
