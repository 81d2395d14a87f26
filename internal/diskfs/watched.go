package diskfs

import "github.com/cockroachdb/pebble/v2/vfs"

// watchedFile reports its failures, which end the journal.
type watchedFile struct {
	vfs.File
	onFailure func(error)
}

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
