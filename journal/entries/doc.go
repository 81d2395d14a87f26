// Package entries holds what is known of entries besides the writes that wait: the settled copies, the listings of
// namespaces, and the versions of the history, with those that have lost a conflict and those that upstream has ceased to
// hold.
//
// Copies, listings and most versions may be lost: upstream is asked again. A copy that cannot be read is a miss, and never an
// older state. But a version of a pending write is owed (see package queue), and what is lost or gone has room of its own.
//
// # Files
//
//	entries.go    [Entries], the copies lock, reading and writing a settled copy
//	settle.go     what a confirmed write leaves
//	fill.go       upstream's answer about an entry; newest.go recalls what was known without a copy
//	listing.go    upstream's list of a namespace; listed.go compares it, missing.go judges what it lacks
//	listings.go   the listings as they are read; row.go changes one entry's row
//	trust.go      which answers count
//	fence.go      the other hosts' states
//	history.go    the versions of an entry; then.go says what entries were at a time, for an undo
//	losses.go     versions that are lost or gone; migrate.go makes them of an older botwired's dead letters
//	keys.go       the known keys in order
//	evict.go      the budget of copies and listings; retention.go that of the history; seen.go what was used
//	rename.go     a namespace that is sealed from now on
//	purge.go      what a person removes for good; disk.go one copy
//
// # One entry
//
// The settled copy names the version with its value: one record says what upstream had, the other has the value. The changes
// of a namespace's copies and listing happen one after the other under its copies lock: the holder reads the disk before the
// change takes its place in the order of all changes. Evictions alone remove copies without it.
//
// A change that shows another state is applied before it is durable, and hides the entry meanwhile: readers wait for the
// sync, so that no answer shows a state that a power cut could undo (contract 7).
package entries
