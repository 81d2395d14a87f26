package diskfs

import (
	"io/fs"
	"syscall"
	"testing"
)

// Windows' own error numbers for a full disk and a locked file, as the standard library returns them.
func TestWindowsErrors(t *testing.T) {
	for number, want := range map[syscall.Errno]struct{ full, locked bool }{112: {full: true}, 39: {full: true}, 1295: {full: true}, 32: {locked: true}, 5: {}} {
		err := &fs.PathError{Op: "write", Path: "file", Err: number}
		if IsFull(err) != want.full || IsLocked(err) != want.locked {
			t.Errorf("%d (%v): full %v, locked %v", number, number, IsFull(err), IsLocked(err))
		}
	}
}
