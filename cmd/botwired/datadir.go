package main

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
)

// dirMode keeps other users out of the data directory.
const dirMode = 0o700

// ours are the names in a data directory; what belongs to one has its name and a dot.
var ours = []string{journalDir, upstreamFile}

// errShared says that a data directory is not botwired's alone.
var errShared = errors.New("it holds other files too")

// keepOthersOut gives a data directory that was there before its mode. One that is
// not ours to change, such as a mounted volume or /tmp, is used as it is: what
// botwired keeps in it is private all the same.
func keepOthersOut(dir string, logger *slog.Logger) {
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&^dirMode == 0 {
		return
	}
	if err == nil {
		err = onlyOurs(dir)
	}
	if err == nil {
		err = os.Chmod(dir, dirMode)
	}
	if err != nil {
		logger.Warn("other users may look into the data directory, though not into the files that botwired keeps there",
			"data_dir", dir, "error", err)
	}
}

// onlyOurs is an error if the directory holds anything but the journal, what recoveries
// and migrations keep beside it, the embedded upstream's database, and upstreamFile.
func onlyOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		isOurs := func(name string) bool { return e.Name() == name || strings.HasPrefix(e.Name(), name+".") }
		if !strings.HasPrefix(e.Name(), databaseFile) && !slices.ContainsFunc(ours, isOurs) {
			return errShared
		}
	}
	return nil
}
