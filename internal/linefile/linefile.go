// Package linefile reads and replaces the small text files beside the journal. A file is replaced durably and at
// once: after a power cut, it is the old or the new one.
package linefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// limit bounds how much of a file is read, in bytes.
const limit = 64 << 10

// ErrForeign is the error for a file that botwired has not written, by its kind or size.
var ErrForeign = errors.New("is not a file that botwired writes")

// Read reads a file that botwired may have written. Any other is [ErrForeign].
func Read(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s %w", name, ErrForeign)
	}
	return os.ReadFile(name)
}

// Write replaces a file with a text and the end of its last line.
func Write(name, text string) error {
	if err := os.Remove(name + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(name))
}

// syncDirectory makes the names in a directory durable, if the platform can.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
