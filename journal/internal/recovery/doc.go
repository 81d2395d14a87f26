// Package recovery handles damaged stores. It examines a store without changing it, and
// salvages the records of a damaged store into a new one that replaces it. It works on
// directories that no process has open; [Recover] holds the lock.
//
// # Steps of a recovery
//
// A recovery may be cut off at any moment. Then either the damaged directory or the new journal is in
// its place; or neither is, and a start refuses to create a journal. The next recovery begins again.
//
//  1. The tables and logs are read one by one, without Pebble. The records found are
//     sorted, and the version with Pebble's highest sequence number counts for each key.
//  2. If Pebble can open the store and shows all that the newest state record counts, the
//     records come from Pebble. Otherwise they are the sorted ones, and those that only
//     Pebble shows. Copies among these may be old, and are dropped. A receipt does not
//     become old, and a receipt of a write that is back is ignored. A version never changes.
//  3. One pass over the records counts the intact ones, and so shows how many are missing. A
//     pending write without its version is not intact.
//  4. The damaged directory is copied aside: dir.copying. The last step names the copy
//     dir.damaged-TIME; before, the report is written: dir.damaged-TIME.json.
//  5. A second pass writes the intact records to a new journal: dir.recovering. For each
//     entry with a pending write, a record says that nobody knows what was sent of it.
//  6. Two renames replace the old directory, which is dir.replaced meanwhile, with the new
//     journal.
//
// Memory is bounded regardless of the size of values: sorting holds some 32 MiB, and writes the rest to
// files in dir.sorting. Some 50 bytes for each pending write are held to find those without a version.
// On disk a recovery takes up to three times the size of the directory: for the copy, the sorted
// records and the new journal.
package recovery
