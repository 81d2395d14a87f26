package diskfs

import "github.com/cockroachdb/pebble/v2/vfs"

// zeroAhead is the number of bytes of a log that are filled with zeros at a time.
const zeroAhead = 256 << 10

// zeroedLog is a new log. It fills allocated space with zeros ahead of the records. Without them, each
// sync must also record that another part of the file was written, which nearly doubles its time. A
// reused log needs no zeros.
type zeroedLog struct {
	watchedFile
	written int64 // end of the records
	zeroed  int64 // end of the written part
	room    int64 // end of the allocated part
}

// allocateLog allocates the space of a log ahead of its records, and returns its size; 0 if it cannot.
// Then the records find room even if the disk fills up meanwhile, and a sync has no new length to
// record, for which file systems need a separate commit. Readers take the zeros after the last record,
// or the remains of an earlier use of the file, for the end of the log.
func (d diskFS) allocateLog(f vfs.File) (room int64) {
	if f.Fd() == vfs.InvalidFd {
		return 0 // in memory
	}
	if err := d.allocate(f, 0, d.LogSize); err != nil { // guard 3.48
		return 0 // the log grows with its records
	}
	return d.LogSize
}

func (f *zeroedLog) Write(b []byte) (int, error) {
	f.fill(f.written + int64(len(b)))
	n, err := f.watchedFile.Write(b)
	f.written += int64(n)
	return n, err
}

// fill writes zeros after the bytes that are about to be written. Its failure does not matter: zeros
// only improve speed, and a failing disk also fails the records.
func (f *zeroedLog) fill(end int64) {
	if end <= f.zeroed || f.zeroed >= f.room {
		return
	}
	from := max(f.zeroed, end)
	if f.zeroed = min(from+zeroAhead, f.room); from >= f.zeroed {
		return
	}
	if _, err := f.WriteAt(zeros[:f.zeroed-from], from); err != nil {
		f.room = 0
	}
}

var zeros [zeroAhead]byte

// watchedFile reports its failures, which end the journal. A write that finds no room is not tried again either: on
// NFS, its error may be about bytes that were written before, and hide that from the next sync.
type watchedFile struct {
	vfs.File
	onFailure func(error)
}

// Preallocate does nothing: the log has its space already, see [diskFS.allocateLog].
func (f watchedFile) Preallocate(int64, int64) error { return nil }

func (f watchedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.report(err)
}

func (f watchedFile) Sync() error { return f.report(f.File.Sync()) }

func (f watchedFile) SyncData() error { return f.report(f.File.SyncData()) }

func (f watchedFile) SyncTo(length int64) (fullSync bool, err error) {
	fullSync, err = f.File.SyncTo(length)
	return fullSync, f.report(err)
}

func (f watchedFile) report(err error) error {
	if err != nil {
		f.onFailure(err)
	}
	return err
}
