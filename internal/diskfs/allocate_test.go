package diskfs

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// WriteFull takes the space on disk even if the system cannot allocate it.
func TestWriteFull(t *testing.T) {
	const size = zeroAhead + 4096
	for name, create := range map[string]func(string) error{
		"as the system does it": func(name string) error { return WriteFull(vfs.Default, name, size) },
		"with zeros": func(name string) error {
			f, err := vfs.Default.Create(name, vfs.WriteCategoryUnspecified)
			if err != nil {
				return err
			}
			return errors.Join(writeZeros(f, size), f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := create(path); err != nil {
				t.Fatal(err)
			}
			info, err := vfs.Default.Stat(path)
			if err != nil || info.Size() != size {
				t.Errorf("the file has %d bytes, not %d (%v)", info.Size(), size, err)
			}
			if taken, ok := onDisk(info); ok && taken < size {
				t.Errorf("the file takes %d bytes on the disk, not %d", taken, size)
			}
		})
	}
}
