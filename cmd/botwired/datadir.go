package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/botwired/botwired/internal/engines"
)

// dirMode keeps other users out of the data directory.
const dirMode = 0o700

// ours lists the names of botwired's own files and directories in a data directory, except the
// embedded upstream's database. A name that adds a dot and a suffix to one of these is botwired's too.
var ours = append([]string{journalDir, upstreamFile, "run"}, engines.Files...) // run.lock and other files of "botwired run"

// errShared says that other programs also keep files in a data directory.
var errShared = errors.New("it holds other files too")

// keepOthersOut sets dirMode on an existing data directory. If the directory also holds other files, as
// /tmp does, or botwired may not change it, such as a mounted volume, botwired uses it as it is:
// botwired's own files in it are private all the same.
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

// onlyOurs returns an error if the directory holds anything other than botwired's files: the journal,
// copies from recoveries and migrations, the embedded upstream's database, and the small files beside
// them.
func onlyOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		isOurs := func(name string) bool { return e.Name() == name || strings.HasPrefix(e.Name(), name+".") }
		if !strings.HasPrefix(e.Name(), engines.DatabaseFile) && !slices.ContainsFunc(ours, isOurs) {
			return errShared
		}
	}
	return nil
}

// journalIsGone reports whether a data directory was used before but has no journal now.
func journalIsGone(dir string) bool {
	in, err := os.ReadDir(filepath.Join(dir, journalDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false // opening the journal reports the error
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
