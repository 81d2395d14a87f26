package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// directory is the data directory's name among the files of a [Place].
const directory = "."

// Place identifies the machine and the files. A field is empty if the platform does not report it.
type Place struct {
	Machine string          `json:"machine,omitempty"` // a hash, to keep the id itself private
	Boot    string          `json:"boot,omitempty"`
	Files   map[string]File `json:"files,omitempty"` // by name, relative to the data directory
}

// File distinguishes a file from its copies. A field is 0 if the platform does not report it.
type File struct {
	Device uint64 `json:"device,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Born   int64  `json:"born,omitempty"` // Unix nanoseconds

	modified, changed time.Time // changed is zero if the platform does not report it
}

// otherThan reports whether a file is certainly not the recorded one. A device's number may change at a
// boot.
func (f File) otherThan(past File, sameBoot bool) bool {
	differ := func(now, then uint64) bool { return now != then && now != 0 && then != 0 }
	return differ(f.Inode, past.Inode) || differ(uint64(f.Born), uint64(past.Born)) ||
		sameBoot && differ(f.Device, past.Device)
}

// places finds the current place of a data directory.
type places struct {
	dir   string
	names []string // the files in Place
}

func (p places) now() Place {
	place := Place{Machine: machine(), Boot: bootID(), Files: make(map[string]File)}
	for _, name := range p.names {
		if info, err := os.Stat(filepath.Join(p.dir, name)); err == nil {
			place.Files[name] = fileOf(info)
		}
	}
	return place
}

func machine() string {
	id := machineID()
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("botwired " + id))
	return hex.EncodeToString(sum[:16])
}

// stampSlack is how much a file's modification time may differ from the one that was set: file systems
// round. changeSlack is how much later the file may be renamed, on a slow disk.
const (
	stampSlack  = 2 * time.Second
	changeSlack = time.Minute
)

// written reports whether a file's times match a file that was written and stamped at stamp. A copy
// keeps the stamp, but not the time of the last change.
func (f File) written(stamp time.Time) bool {
	if f.modified.Sub(stamp).Abs() > stampSlack {
		return false
	}
	return f.changed.IsZero() || f.changed.Sub(stamp) <= changeSlack // guard 19.24
}

// fileLimit limits how much of the file is read, in bytes.
const fileLimit = 64 << 10

// ErrForeign is the error for a file that botwired has not written, by its kind or size.
var ErrForeign = errors.New("is not a file that botwired writes")

// ReadText reads a small file that botwired may have written. Any other is [ErrForeign].
func ReadText(name string) (text []byte, _ File, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, File{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > fileLimit {
		return nil, File{}, fmt.Errorf("%s %w", name, ErrForeign)
	}
	text, err = os.ReadFile(name)
	return text, fileOf(info), err
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
