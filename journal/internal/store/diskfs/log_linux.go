package diskfs

import "syscall"

// Preallocate gives a log its length ahead of what is written: a sync then has no new
// length to record, for which file systems make a commit of their own. Where nothing
// has been written yet, a reader finds zeros. They end the log, as do the remains of an
// earlier use of the file. When Preallocate fails, Pebble goes on without it.
func (f *zeroedLog) Preallocate(offset, length int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, offset, length)
	if err == nil {
		f.room = offset + length
	}
	return err
}
