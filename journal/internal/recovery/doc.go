// Package recovery handles stores that are damaged or of an older format. It examines a
// store without changing it, salvages the records of a damaged store into a new one that
// takes its place, and brings a store of an older format to the present one. It works on
// directories that no process has open; the caller or [Recover] holds the lock.
//
// # Steps of a recovery
//
// A recovery may be cut off at any moment. Then either the damaged directory or the new
// journal is in its place, or neither is and a start refuses to make a journal. The next
// recovery begins again.
//
//  1. The tables and logs are read past Pebble, one by one. The records found are sorted,
//     and the newest version of each key counts, by Pebble's own sequence number.
//  2. If Pebble can open the store, and shows all that the newest state record counts,
//     the records are taken from there. Else the sorted ones are, and those that only
//     Pebble shows; copies among them may be old, and are dropped. A receipt does not
//     become old, and the one of a write that is back counts for nothing.
//  3. One pass over the records counts those that check, and so those that are missing.
//  4. The damaged directory is copied aside: dir.damaged-TIME. Before the last step the
//     report is written beside it: dir.damaged-TIME.json.
//  5. A second pass writes the records that check to a new journal: dir.recovering. Each
//     entry with a pending write gets a sent mark, as upstream may hold the write.
//  6. The new journal takes the place of the old directory, which is dir.replaced
//     meanwhile, by two renames.
//
// Memory is bounded, however large the journal is: sorting holds 16 MiB, and puts the
// rest into files in dir.sorting. On the disk a recovery takes up to three times what the
// directory does: the copy, the sorted records and the new journal.
package recovery
