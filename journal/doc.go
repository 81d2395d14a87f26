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
//     sequence numbers (contract 5).
//   - A write leaves the pending set only by [Journal.Settle], by [Journal.Bury],
//     or because a newer write to the same entry took its place (contract 13).
//
// It knows nothing of HTTP, of retries or of what upstream is.
//
// # Layout
//
// FORMAT in the directory holds one line, "botwired journal 1", and is read before
// anything else is touched; it is made last, when the store is complete. Keys in the store, where ns and key are an entry's
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
//	         uv dead letters  uv dead-letter bytes
//	pending  op (1 byte: 1 put, 2 delete)  flags (1 byte: bit 0 follows a delete)
//	         f64 updated_at  f64 since  f64 born  uv list bytes  value
//	sent     uv seq
//	settled  f64 created_at  f64 updated_at  f64 confirmed_at  uv list bytes  value
//	header   f64 fetched_at  flags (1 byte: bit 0 complete)
//	row      uv list bytes  f64 updated_at
//	dead     str ns  str key  uv status  str error  f64 buried_at  pending…
//
// The state record counts the pending records and the dead letters in the store and
// adds up the former's checksums (modulo 2^64), so that a store that lost some of
// them does not pass for a smaller one: [Journal.Run] compares it with what it finds.
package journal
