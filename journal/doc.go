// Package journal is the durable store of botwired: the writes that were
// acknowledged and not yet confirmed by upstream, the last state of entries and
// listings that upstream is known to have had, and the dead letters. It is a
// Pebble store in one directory, owned by one process at a time.
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
//     sequence numbers (contract 5). Those who write at the same time share a batch and
//     its fsync.
//   - A write leaves the pending set only by [Journal.Settle], by [Journal.DeadLetter],
//     or because a newer write to the same entry took its place (contract 13).
//
// A log or a directory that fails is noticed beneath Pebble, which panics about some of
// it on a goroutine of its own: Fatal is called first, and the process ends with one
// line. One way is left in which it ends with stacks and a non-zero code instead: when
// the disk fails amid [Open], Pebble closes its cache under a goroutine of its own that
// still reads tables. Nothing has been acknowledged then, and what is on the disk is
// left as by a kill.
//
// It knows nothing of HTTP, of retries or of what upstream is.
//
// # Layout
//
// FORMAT in the directory holds one line, "botwired journal 2", and is read before
// anything else is touched; it is made last, when the store is complete.
//
// MARK is the high-water mark: two slots, at 0 and 4096, that are written in turn, of
// which the one with the higher round counts (all u64 and u32 little-endian):
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
// as zeros behind their last record, or as what they held in an earlier use.
//
// Keys in the store, where ns and key are an entry's
// namespace and key (neither can hold a slash) and u64 is big-endian:
//
//	m/state          the state record, rewritten by every batch
//	p/ns/key/u64     pending write, u64 its sequence number
//	a/ns/key         sent mark: upstream may hold or yet apply a pending write
//	s/ns/key         settled copy of an entry
//	h/ns             header of a settled listing
//	l/ns/key         row of a settled listing
//	d/u64            dead letter, u64 the sequence number of the refused write
//
// Every value ends in the CRC-32C (Castagnoli, 4 bytes, little-endian) of its key
// followed by the rest of the value. The rest is, field by field (uv: unsigned
// varint; f64: IEEE 754 bits, 8 bytes, little-endian; str: uv length, bytes):
//
//	state    uv seq  uv pending records  uv pending bytes  u64le sum
//	         uv dead letters  uv dead-letter bytes  uv batches
//	pending  op (1 byte: 1 put, 2 delete)  flags (1 byte: bit 0 follows a delete)
//	         f64 updated_at  f64 since  f64 createdAt  uv list bytes  value
//	sent     uv seq
//	settled  f64 created_at  f64 updated_at  f64 confirmed_at  uv list bytes  value
//	header   f64 fetched_at  f64 newest updated_at  flags (1 byte: bit 0 complete)
//	row      uv list bytes  f64 updated_at
//	dead     str ns  str key  uv status  str error  f64 refused_at  pending…
//
// The state record counts the pending records and the dead letters in the store and
// adds up the former's checksums (modulo 2^64), so that a store that lost some of
// them does not pass for a smaller one: [Journal.Run] compares it with what it finds.
//
// Format 1 had no MARK and no batches. [Open] migrates it in place: the store is
// verified, a Pebble checkpoint is made beside the directory (name.format-1) and
// removed once the migrated store has been opened, and the rename of FORMAT is the
// moment of change.
//
// # Damage
//
// A store that is behind its mark, a manifest that is not the one that the mark knows,
// a gap between the batches of the logs, a record or block whose checksum does not
// hold, and records that do not add up to the state record are [ErrCorrupt], at Open
// before Pebble removes anything, or at Run; settled copies and listings, when they
// are read. [Recover] salvages what checks.
//
// What remains unnoticed when one file is damaged:
//
//   - After an unclean end, the loss of the end of the last log as far as it is
//     younger than the mark, which is a second: it cannot be told from a write that
//     was under way.
//   - After an unclean end with several logs, the loss of the whole first one, or of
//     a part at its beginning, as far as it holds only settled copies, listings and
//     sent marks, which the state record does not count. Reads may then go back to
//     an older copy, and a write that was under way is not known to be in doubt.
//   - The same of a manifest whose last entries are younger than the mark.
//   - The return of the whole directory, MARK included, to an earlier time: that is
//     not one file, and nothing in the directory can tell.
package journal
