// Package memory decides what BotWire's memory API is answered with: it owns the order of reads and writes.
//
// A [Request] has checked names and a checked value; a [Result] is data: a status, a header, a body. The
// package knows no HTTP, and nothing of Pebble, of retries, or of how upstream is reached.
//
// A read looks for its answer in the cache, else among the pending writes, else in the settled copy while
// that is fresh, or in the listing that lacks the entry, else upstream, with one request for all who wait.
// An answer from upstream is dropped if a write came in between. The cache may come first, because no write
// is visible before the cache drops what the write has made old: the journal announces each change with its
// lock held, and that advances the generation of all answers made before (contract 6). A write is journaled
// and acknowledged, or carried out upstream first where its namespace is set so.
package memory
