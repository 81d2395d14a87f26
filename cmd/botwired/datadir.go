package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/botwired/botwired/internal/binding"
	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/internal/engines"
	"github.com/botwired/botwired/internal/words"
)

// dirMode keeps other users out of the data directory.
const dirMode = 0o700

// ours lists the names of botwired's own files and directories in a data directory, except the
// embedded upstream's database. A name that adds a dot and a suffix to one of these is botwired's too.
var ours = append([]string{journalDir, binding.File, "run"}, engines.Files...) // run.lock and other files of "botwired run"

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
// copies from recoveries, the embedded upstream's database, and the small files beside them.
func onlyOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !isOurs(e.Name()) }) {
		return errShared
	}
	return nil
}

func isOurs(name string) bool {
	is := func(our string) bool { return name == our || strings.HasPrefix(name, our+".") }
	return strings.HasPrefix(name, engines.DatabaseFile) || slices.ContainsFunc(ours, is)
}

// refusePlanted makes the journal's directory, and returns an error if it, or anything else of
// botwired's, belongs to another user, or if everybody may write into it.
func refusePlanted(dataDir string) error {
	dir := filepath.Join(dataDir, journalDir)
	if err := os.MkdirAll(dir, dirMode); err != nil && !diskfs.IsFull(err) { // the journal waits for room
		return words.Unusable(err)
	}
	if err := refuseOwners(dataDir); err != nil {
		return err
	}
	info, err := os.Stat(dir) // behind a link, too
	switch {
	case errors.Is(err, fs.ErrNotExist): // there is no room for it
		return nil
	case err != nil:
		return words.Unusable(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0 { // guard 21.13
		return fmt.Errorf("everybody may write into %s: if you trust what is in it, run chmod 700 %s", journalDir, dir)
	}
	return refuseOwner(info)
}

// refuseOwners returns an error if anything under one of botwired's names, links too, belongs to another
// user, who could have put it into a shared data directory to read the values.
func refuseOwners(dataDir string) error {
	entries, err := os.ReadDir(dataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return words.Unusable(err)
	}
	for _, e := range entries {
		if !isOurs(e.Name()) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return words.Unusable(err)
		}
		if err := refuseOwner(info); err != nil {
			return err
		}
	}
	return nil
}

func refuseOwner(info fs.FileInfo) error {
	if owner := ownerOf(info); owner != os.Geteuid() && owner != 0 { // guard 21.12
		return fmt.Errorf("%s belongs to user %d, who could read the values: choose another directory, or give %s to the daemon's user if you trust what is in it",
			info.Name(), owner, info.Name())
	}
	return nil
}

func journalIsGone(dir string) bool {
	in, err := os.ReadDir(filepath.Join(dir, journalDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false // opening the journal reports the error
	}
	if slices.ContainsFunc(in, func(e os.DirEntry) bool { return e.Name() != "LOCK" }) {
		return false
	}
	_, err = os.Stat(filepath.Join(dir, binding.File))
	return err == nil
}
