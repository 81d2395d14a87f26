package journal

import "github.com/botwired/botwired/journal/internal/recovery"

// RecoverOptions configures [Recover].
type RecoverOptions = recovery.Options

// Recovery says what [Recover] found and did.
type Recovery = recovery.Recovery

// Salvaged counts records.
type Salvaged = recovery.Salvaged

// Missing counts the records that are known to be missing.
type Missing = recovery.Missing

// Recover repairs a journal that cannot be opened. It writes the records that pass their checks to a new
// journal, which takes the place of the old one, and keeps the old one aside.
// Afterwards nobody knows what was sent of an entry with a pending write. Recover leaves a healthy journal unchanged.
//
// Errors: [ErrInUse], [ErrFormat] for another format, [ErrCorrupt] or [ErrFormat] if no record can be
// read, and those of the file system. An error before the final renames leaves the directory unchanged.
// After a later error, the next call or start finishes the work.
func Recover(opts RecoverOptions) (*Recovery, error) {
	if opts.FS == nil {
		opts.Dir = followed(opts.Dir)
	}
	return recovery.Recover(opts)
}
