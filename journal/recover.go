package journal

import "github.com/botwired/botwired/journal/internal/recovery"

// RecoverOptions configures [Recover].
type RecoverOptions = recovery.Options

// Recovery is what [Recover] found and did.
type Recovery = recovery.Recovery

// Progress is how far a recovery is.
type Progress = recovery.Progress

// Salvaged counts records.
type Salvaged = recovery.Salvaged

// Missing counts the records that are known to be missing.
type Missing = recovery.Missing

// Recover makes a journal that can be opened of one that cannot: it copies the
// directory aside, reads the records that check, and puts them into a new journal that
// takes the place of the old one by a rename. Every entry with a pending write is in doubt
// afterwards. Recover leaves a healthy journal as it is.
//
// Errors: [ErrInUse], [ErrFormat] for a newer format, [ErrCorrupt] when nothing of a
// journal is found, and those of the file system; then the directory is as it was.
func Recover(opts RecoverOptions) (*Recovery, error) { return recovery.Recover(opts) }
