// Package identity notices that a daemon may no longer be the only host with its data: its data
// directory is a copy or an old backup, or its machine or process was stopped while others went on
// writing (contract 19).
//
// At the daemon's start, [Open] compares the data directory's place with the one that the last start
// recorded in a file there: the ids of the machine and the boot, and the files and their device. The
// file records its own inode and the time at which it was written. A copy differs in one of them, even
// if the copying program preserves times.
//
// While the daemon runs, [Watch.Stands] and [Watch.Check] compare the clocks before each use of a copy,
// and [Watch.Run] compares them every second. If the wall clock has moved differently from the
// monotonic one, the machine was suspended or cloned, or its clock was set. If there was no reading for
// seconds, the process was stopped.
//
// Each finding is a [Doubt]. A doubt refuses nothing. It makes the daemon careful: a copy confirmed
// earlier is not fresh until upstream is asked again, and pending writes are compared with upstream
// before they are sent. Both effects survive a restart. On a platform that reports less, fewer cases
// are noticed.
//
// Three cases go unnoticed. A file system that its own snapshot rolls back in place, within one boot,
// looks unchanged. So does a machine that is cloned while it runs, if its clocks do not show the time
// that passed. And the original does not notice that it was copied.
package identity
