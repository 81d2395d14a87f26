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
//	fill.go       upstream's answer about an entry
//	listing.go    upstream's list of a namespace; listed.go compares it, missing.go judges what it lacks
//	row.go        one entry's row in the listing
//	trust.go      which answers count
//	fence.go      the other hosts' states
//	history.go    the versions of an entry; then.go says what entries were at a time
//	losses.go     versions that are lost or gone
//	evict.go      the budget of copies and listings; retention.go that of the history
//	purge.go      what a person removes for good
//
// # One entry
//
// The settled copy names the version with its value: one record says what upstream had, the other has the value. All changes
// of a namespace's copies and listing happen one after the other under its copies lock: the holder reads the disk before the
// change takes its place in the order of all changes.
//
// A change that shows another state is applied before it is durable, and hides the entry meanwhile: readers wait for the
// sync, so that no answer shows a state that a power cut could undo (contract 7).
package entries
