// Package identity notices that a daemon may not be the one host that it takes itself for: its data
// directory is a copy, or an old one that has come back, or its machine or process stood still while
// others went on writing (contract 19).
//
// At its start, [Open] compares the place where it finds itself with the one that the last start
// recorded in a file of the data directory: the machine's id, the boot's, and which files on which
// device these are. The file records its own inode and the time at which it was written. A copy
// differs in one of them, even if the copying program preserves times.
//
// While the daemon runs, [Watch.Stands] and [Watch.Check] compare the clocks before each use of what is
// known, and [Watch.Run] does so every second: if the wall clock has moved otherwise than the monotonic
// one, the machine was suspended or cloned, or its clock was set; if there was no look for seconds, the
// process was stopped.
//
// Each finding is a [Doubt]. A doubt refuses nothing. It makes the daemon careful: a copy that was
// confirmed earlier is not fresh until upstream is asked again, and pending writes are compared with
// upstream before they are sent. Both outlive the process. On a platform that reports less, fewer cases
// are noticed.
//
// Three cases go unnoticed. A file system that is rolled back in place, by a snapshot of its own and
// within one boot, looks as it did. So does a machine that is cloned while it runs, if its clocks say
// that no time has passed. And the original does not notice that it was copied.
package identity
