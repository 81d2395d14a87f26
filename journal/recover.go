package journal

import "github.com/botwired/botwired/journal/internal/recovery"

// RecoverOptions configures [Recover].
type RecoverOptions = recovery.Options

// Recovery says what [Recover] found and did.
type Recovery = recovery.Recovery

// Progress says how far a recovery has come.
type Progress = recovery.Progress

// Salvaged counts records.
type Salvaged = recovery.Salvaged

// Missing counts the records that are known to be missing.
type Missing = recovery.Missing

// Recover repairs a journal that cannot be opened. It copies the directory aside, reads the records
// that pass their checks, and writes them to a new journal, which replaces the old one by a rename.
// Afterwards every entry with a pending write is in doubt. Recover leaves a healthy journal unchanged.
//
// Errors: [ErrInUse], [ErrFormat] for a newer format, [ErrCorrupt] if nothing of a journal is found,
// and those of the file system. After an error, the directory is unchanged.
func Recover(opts RecoverOptions) (*Recovery, error) { return recovery.Recover(opts) }
