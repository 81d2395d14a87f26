// Package memory decides how to answer BotWire's memory API: it owns the order of reads and writes.
//
// A [Request] has checked names and a checked value. A [Result] is data: a status, headers, a body. The
// package knows nothing of HTTP, of Pebble, of retries, or of how upstream is reached.
//
// A read looks for its answer in the cache, then among the pending writes, then in the settled copy if
// that is fresh, or in a listing that lacks the entry. Last, it asks upstream, with one request for all
// waiting readers. It drops upstream's answer if a write came in between. The cache may come first,
// because no write is visible before the cache has dropped the answers that it makes old: the journal
// announces each change while it holds its lock, and the announcement advances the generation of all
// earlier answers (contract 6). A write is journaled and acknowledged. In a write-through namespace,
// upstream carries it out first.
package memory
