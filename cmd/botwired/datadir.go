package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// dirMode keeps other users out of the data directory.
const dirMode = 0o700

// ours are the names that botwired gives in a data directory. A file that belongs to one
// of them has its name, a dot and more.
var ours = []string{journalDir, upstreamFile, hostFile, markFile, "run"} // run.lock and others are "botwired run"'s

// errShared says that other programs keep files in a data directory, too.
var errShared = errors.New("it holds other files too")

// keepOthersOut gives dirMode to a data directory that existed before. botwired uses a
// directory that it may not change, such as a mounted volume or /tmp, as it is: its own
// files in it are private all the same.
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
		logger.Warn("other users can list the data directory, but cannot read botwired's files in it",
			"data_dir", dir, "error", err)
	}
}

// onlyOurs returns an error if the directory holds anything but the journal, the copies
// that recoveries and migrations keep beside it, the embedded upstream's database, and
// the small files beside them.
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

// journalIsGone reports whether a data directory was used before and has no journal now.
func journalIsGone(dir string) bool {
	in, err := os.ReadDir(filepath.Join(dir, journalDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false // opening says what is wrong with it
	}
	if slices.ContainsFunc(in, func(e os.DirEntry) bool { return e.Name() != "LOCK" }) {
		return false
	}
	for _, trace := range []string{upstreamFile, journalDir + ".ballast"} {
		if _, err := os.Stat(filepath.Join(dir, trace)); err == nil {
			return true
		}
	}
	return false
}
