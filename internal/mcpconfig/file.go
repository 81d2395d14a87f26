package mcpconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// maxFile bounds a configuration file, in bytes: a path that names something else by
	// mistake must not fill the memory.
	maxFile = 64 << 20
	// attempts bounds how often a file is edited anew that a client has just changed.
	attempts = 5
	// dirMode is for the directory of a file that does not exist.
	dirMode = 0o700
)

// Edited says what has become of a file.
type Edited struct {
	File    string // behind all symbolic links
	Backup  string // of the file as it was; "" if there was none, or if nothing has changed
	Changed bool
}

// Read returns a file's text, which is empty if the file does not exist.
func Read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // to open a pipe would wait for its writer
		return nil, fmt.Errorf("%s is no regular file: it is no configuration file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d MiB: it is no configuration file", file, maxFile>>20)
	}
	return text, nil
}

// Edit replaces a file by its edited text, all at once, and keeps its mode. It keeps a copy of
// the file beside it first. A file that does not exist is made with a mode. If the text
// stays as it is, so does the file.
func Edit(file string, mode fs.FileMode, now time.Time, edit func([]byte) ([]byte, error)) (Edited, error) {
	file, err := target(file)
	if err != nil {
		return Edited{}, err
	}
	done := Edited{File: file}
	for range attempts {
		before, err := Read(file)
		if err != nil {
			return done, err
		}
		after, err := edit(before)
		if err != nil || bytes.Equal(before, after) {
			return done, err
		}
		replaced, err := replace(file, mode, now, before, after, &done)
		if replaced || err != nil {
			return done, err
		}
	}
	return done, fmt.Errorf("another program goes on changing %s: end it, and try again", file)
}

// target follows symbolic links, so that the links stay.
func target(file string) (string, error) {
	real, err := filepath.EvalSymlinks(file)
	if err == nil {
		return real, nil
	}
	if _, at := os.Lstat(file); at == nil {
		return "", fmt.Errorf("%s is a symbolic link that leads nowhere: %w", file, err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s cannot be reached: %w", file, err)
	}
	return filepath.Abs(file)
}

// replace reports false if the file is not what it was before.
func replace(file string, mode fs.FileMode, now time.Time, before, after []byte, done *Edited) (replaced bool, err error) {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return false, err
	}
	info, err := os.Stat(file)
	existed := err == nil
	if existed {
		mode = info.Mode().Perm()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	temporary, err := writeBeside(file, after, mode)
	if err != nil {
		return false, err
	}
	made := []string{temporary}
	defer func() {
		for _, name := range made {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	kept := ""
	if existed {
		if kept, err = backup(file, before, mode, now); err != nil {
			return false, err
		}
		made = append(made, kept)
	}
	if again, err := Read(file); err != nil || !bytes.Equal(again, before) {
		return false, err
	}
	if err := os.Rename(temporary, file); err != nil {
		return false, err
	}
	made, done.Backup, done.Changed = nil, kept, true
	return true, nil
}

// writeBeside writes a file into the directory of another one.
func writeBeside(file string, text []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".botwired-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(text); err != nil {
		return "", err
	}
	if err := f.Chmod(mode); err != nil {
		return "", err
	}
	return f.Name(), f.Sync()
}

// backup keeps a text beside its file, under a name that nothing has.
func backup(file string, text []byte, mode fs.FileMode, now time.Time) (name string, err error) {
	first := file + ".bak-" + now.UTC().Format("20060102T150405Z")
	for n := 1; ; n++ {
		name = first
		if n > 1 {
			name = fmt.Sprintf("%s-%d", first, n)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(text)
		return name, errors.Join(err, f.Sync(), f.Close())
	}
}
