// Package record defines the layout of a journal on disk: its keys and values, byte by byte,
// and the state record that adds them up. It is pure: it reads and writes no files.
//
// # Layout
//
// Keys, where ns and key are an entry's namespace and key (neither can hold a slash) and
// u64 is big-endian:
//
//	m/state          the state record, rewritten by every batch
//	m/sending        when something was last sent upstream; missing if nothing ever was
//	m/retention      what was removed from the history; missing if nothing was
//	u/               what upstream's engine has seen, in the engine's own form; missing if it keeps none
//	v/ns/key/u64     version of an entry, u64 its sequence number: a write, or what upstream has
//	                 shown; it never changes
//	x/ns/key/u64     loss of a version, u64 that of the version: it is lost, or gone
//	p/ns/key/u64     pending write, u64 that of its version
//	a/ns/key         what requests may have left of the entry, besides its pending write, since it last settled
//	s/ns/key         settled copy of an entry
//	t/ns/key         newest state that is known of an entry whose versions name their times; it stays
//	                 without the copy, and without the version. Without a key: when the namespace was
//	                 sealed, and the last number before that
//	h/ns             header of a settled listing
//	l/ns/key         row of a settled listing
//	d/u64            dead letter, u64 the sequence number of the write
//	r/               the generations of receipts
//	r/u64u64         receipt, the first u64 its generation, the second the sequence number
//	                 of the write
//	r/u64name        named request, name a hash (16 bytes) of the entry and the caller's name
//
// Every value ends in the CRC-32C (Castagnoli, 4 bytes, little-endian) of its key
// followed by the rest of the value. The rest is, field by field (uv: unsigned
// varint; f64: IEEE 754 bits, 8 bytes, little-endian; str: uv length, bytes):
//
//	state    uv seq  uv pending records  uv pending bytes  u64le sum
//	         uv dead letters  uv dead-letter bytes  uv batches
//	         an older botwired may have added one uv
//	retention  f64 newest written_at of a removed version  uv highest number of one; in the records of an
//	         older botwired, it is missing
//	version  op (1 byte: 1 put, 2 delete)  flags (1 byte: bit 0 upstream has shown it, 1 it replaced a
//	         pending write)  f64 written_at  if bit 1 of the flags is set: uv seq of that write
//	         str author  str host  uv list bytes  value
//	loss     flags (1 byte: bit 0 upstream has ceased to hold it, 1 it was never in force here)
//	         f64 when the journal learnt of it  uv its place in their order  uv the bytes that it counts for
//	pending  op (1 byte: 1 put, 2 delete)
//	         flags (1 byte: bit 0 follows a delete, 1 has a written_at, 2 loses ties, 3 fenced,
//	         4 the value is in the version: not in a dead letter)
//	         f64 updated_at  f64 since  f64 created_at
//	         if bit 1 of the flags is set: f64 written_at; else it is updated_at
//	         uv list bytes
//	         uv length of the value; in a dead letter the value itself
//	sent     uv seq, and for each content that was sent and may land:
//	         op (1 byte)  the first 16 bytes of the value's SHA-256, zero for a delete
//	settled  f64 created_at  f64 updated_at  f64 confirmed_at  size
//	         bit 30 of the list bytes is set: uv sequence number of the version with the value,
//	         with bit 29: f64 a time at which upstream did not hold the entry,
//	         and with bit 28: f64 the time that the version itself names
//	newest   as settled
//	header   f64 fetched_at  f64 newest updated_at  flags (1 byte: bit 0 complete,
//	         bit 1 suspect; bit 2 means nothing any more)
//	         if suspect: f64 since  uv missing  uv of  uv 0, which means nothing any more
//	row      size  f64 updated_at
//	size     uv list bytes; if bit 31 is set, the origin follows: uv seq, or 0 for another
//	         host's state  f64 upstream's updated_at; negative: it is not earlier than that
//	dead     str ns  str key  uv status, with bit 31 set
//	         kind (1 byte: 0 refused, 2 dropped; bit 5 has an author)  uv seq of a later write that has
//	         settled, or 0
//	         if bit 5 of the kind is set: str author
//	         in one that an older botwired has made of a conflict (1): see Conflict
//	         str error  f64 refused_at  pending, with the value
//	receipt  op (1 byte)  state (1 byte: 1 settled, 2 superseded, 3 dead)
//	         f64 written_at  f64 settled_at  uv by  str ns  str key  reason
//	request  op (1 byte; bit 7: it was refused)  uv seq of its write, or of the last one before the
//	         refusal; if bit 7 is set: uv status  8 bytes of the content's hash
//	         str ns  str key  what its answer needs
//	generations  f64 began_at of the last, and for each, the oldest first:
//	         uv generation  uv receipts
//
// The state record counts the pending records and the dead letters in the store, and adds up the
// checksums of the pending records (modulo 2^64). So a store that has lost some of these records does
// not pass for a smaller one.
package record
