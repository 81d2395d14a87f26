package main

import (
	"path/filepath"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/journal"
)

// identityFiles are never replaced as long as the journal exists: the journal overwrites MARK in place.
var identityFiles = []string{journalDir, filepath.Join(journalDir, "MARK")}

// openIdentity checks whether the data directory is still the one that the last daemon left. It needs
// the open journal and the flusher.
func (d *sidecar) openIdentity(c *config.Config) {
	d.watch = identity.Open(identity.Options{
		Dir:      c.DataDir,
		Files:    identityFiles,
		Seq:      func() uint64 { return d.journal.Stats().LastSeq },
		Unused:   func() (bool, error) { h, err := d.journal.Holdings(); return h == journal.Holdings{}, err },
		InFlight: c.Upstream.Timeout,
		OnDoubt:  d.flusher.FenceAll,
		Logger:   d.logger,
	})
	d.onClose(func() error {
		st := d.journal.Stats()
		d.watch.Close(st.Pending == 0 && !st.Rebuilding)
		return nil
	})
}
