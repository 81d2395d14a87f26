package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
)

// manifestMark is the mark's part about Pebble's manifest, which lists the store's tables.
type manifestMark struct {
	number uint64
	length uint64
	sum    uint32 // CRC-32C of the first length bytes
}

func manifestPath(fsys vfs.FS, dir string, number uint64) string {
	return fsys.PathJoin(dir, fmt.Sprintf("MANIFEST-%06d", number))
}

// manifestInForce returns the number of the manifest that Pebble's marker names; 0 if there is none.
func manifestInForce(fsys vfs.FS, dir string) (number uint64, _ error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	var newest uint64
	for _, name := range names {
		var turn, n uint64
		if k, _ := fmt.Sscanf(name, "marker.manifest.%d.MANIFEST-%d", &turn, &n); k == 2 && turn >= newest {
			newest, number = turn, n
		}
	}
	return number, nil
}

// sumManifest returns the length and the checksum of a manifest's first limit bytes, or of all if it is
// shorter.
func sumManifest(f io.Reader, limit uint64) (length uint64, sum uint32, err error) {
	h := crc32.New(record.Castagnoli)
	n, err := io.Copy(h, io.LimitReader(f, int64(limit)))
	return uint64(n), h.Sum32(), err
}

// check returns [record.ErrCorrupt] if the manifest does not begin as the mark says. Pebble takes a
// damaged manifest for one that ends at the damage, and then removes the tables that it does not name.
// check ignores a manifest newer than the mark.
func (m manifestMark) check(fsys vfs.FS, dir string) error {
	number, err := manifestInForce(fsys, dir)
	if err != nil || number > m.number {
		return err
	}
	damaged := fmt.Errorf("%w: the manifest is not the one that was written", record.ErrCorrupt)
	if number < m.number {
		return damaged
	}
	f, err := fsys.Open(manifestPath(fsys, dir, number))
	if errors.Is(err, fs.ErrNotExist) {
		return damaged
	}
	if err != nil {
		return err
	}
	length, sum, err := sumManifest(f, m.length)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if length != m.length || sum != m.sum {
		return damaged
	}
	return nil
}

// next returns the manifest's part of the next mark. If the manifest has grown since this mark, next
// syncs it first, because Pebble may not have done so yet.
func (m manifestMark) next(fsys vfs.FS, dir string) (now manifestMark, err error) {
	if now.number, err = manifestInForce(fsys, dir); err != nil {
		return manifestMark{}, err
	}
	f, err := fsys.Open(manifestPath(fsys, dir, now.number))
	if err != nil {
		return manifestMark{}, err
	}
	info, err := f.Stat()
	if err == nil && now.number == m.number && uint64(info.Size()) == m.length {
		return m, f.Close()
	}
	if err == nil {
		now.length, now.sum, err = sumManifest(f, uint64(info.Size()))
	}
	if err == nil {
		err = f.Sync()
	}
	return now, errors.Join(err, f.Close())
}

// Each record of the manifest begins with numbers under these tags, and a name.
const (
	manifestComparer   = 1
	manifestFirstLog   = 2 // the first log that is not in tables
	manifestNextFile   = 3
	manifestLastRecord = 4 // the highest number that a record of an earlier log can have
	manifestOldLog     = 9
)

// firstRecord is the number of the first record in any Pebble store.
const firstRecord = 10

// liveLogs is the manifest's part about the logs that are not in tables. first and nextFile are 0 if
// the manifest does not give them.
type liveLogs struct {
	// first is the lowest number that a log outside the tables may have: every log with a lower number
	// is in tables. Right after Pebble has opened a store, no log has this number.
	first uint64
	// begins is the number of a record. All earlier records are in tables.
	begins uint64
	// nextFile is the lowest possible number of a file made after first was set.
	nextFile uint64
}

func readLiveLogs(fsys vfs.FS, dir string) (live liveLogs, err error) {
	live.begins = firstRecord
	number, err := manifestInForce(fsys, dir)
	if err != nil || number == 0 {
		return live, err
	}
	path := manifestPath(fsys, dir, number)
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return live, fmt.Errorf("%w: the manifest %s is missing", record.ErrCorrupt, path)
	}
	if err != nil {
		return live, err
	}
	before := 0
	_, _ = ReadLog(f, 0, func(edit []byte) error { // as far as Pebble itself reads it
		live.take(edit, before)
		before++
		return nil
	})
	return live, f.Close()
}

// take reads one record of the manifest, given the number of records before it. The first one repeats an
// earlier manifest, except for the next file, which is current. It lacks the last record, which the second
// one has.
func (l *liveLogs) take(edit []byte, before int) {
	numbers := make(map[uint64]uint64)
	readEdit(edit, func(tag, n uint64) { numbers[tag] = n })
	begins := max(numbers[manifestLastRecord]+1, firstRecord)
	first, ok := numbers[manifestFirstLog]
	if !ok {
		if before == 1 {
			l.begins = begins
		}
		return
	}
	*l = liveLogs{first: first, begins: begins}
	if before > 0 {
		l.nextFile = numbers[manifestNextFile]
	}
}

// readEdit visits the numbers at the beginning of a manifest record, up to the tables.
func readEdit(edit []byte, visit func(tag, n uint64)) {
	for len(edit) > 0 {
		tag, size := binary.Uvarint(edit)
		if size <= 0 {
			return
		}
		n, more := binary.Uvarint(edit[size:])
		if more <= 0 {
			return
		}
		edit = edit[size+more:]
		switch tag {
		case manifestComparer: // n is the length of a name
			if n > uint64(len(edit)) {
				return
			}
			edit = edit[n:]
		case manifestFirstLog, manifestNextFile, manifestLastRecord, manifestOldLog:
			visit(tag, n)
		default:
			return
		}
	}
}
