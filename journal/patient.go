package journal

import (
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// flushCategory is Pebble's name for what is written from memory to a table.
const flushCategory = "pebble-memtable-flush"

// patientFS has those who write tables to a full disk take turns. Tables are written in
// the background, with no lock held; the log, for which callers wait, is left alone.
//
// It also tells lost of a log or a directory that cannot be written or synced. Pebble
// panics about some of that, where nobody can recover: the process would end with the
// stacks of all goroutines and no reason.
type patientFS struct {
	vfs.FS
	turns *turns
	lost  func(error)
}

func (p patientFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	flush, table := category == flushCategory, strings.HasSuffix(name, ".sst")
	if table && !p.turns.wait(flush) {
		return nil, syscall.ENOSPC
	}
	f, err := p.FS.Create(name, category)
	switch {
	case table && err != nil:
		return nil, p.turns.tell(flush, err)
	case table:
		return patientFile{f, p.turns, flush}, nil
	case err == nil && strings.HasSuffix(name, ".log"):
		return &newLog{watchedFile: watchedFile{f, p.lost}}, nil
	}
	return f, err
}

// ReuseForWrite makes a log of an old one.
func (p patientFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return p.watch(p.FS.ReuseForWrite(from, to, category))
}

func (p patientFS) OpenDir(name string) (vfs.File, error) { return p.watch(p.FS.OpenDir(name)) }

func (p patientFS) watch(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return watchedFile{f, p.lost}, nil
}

// Unwrap lets Pebble find what is beneath.
func (p patientFS) Unwrap() vfs.FS { return p.FS }

// patientFile is a table that is being written.
type patientFile struct {
	vfs.File
	turns *turns
	flush bool
}

func (f patientFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.turns.tell(f.flush, err)
}

func (f patientFile) Sync() error { return f.turns.tell(f.flush, f.File.Sync()) }

func (f patientFile) SyncData() error { return f.turns.tell(f.flush, f.File.SyncData()) }

// watchedFile is one that must not fail.
type watchedFile struct {
	vfs.File
	lost func(error)
}

func (f watchedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.tell(err)
}

func (f watchedFile) Sync() error { return f.tell(f.File.Sync()) }

func (f watchedFile) SyncData() error { return f.tell(f.File.SyncData()) }

func (f watchedFile) SyncTo(length int64) (fullSync bool, err error) {
	fullSync, err = f.File.SyncTo(length)
	return fullSync, f.tell(err)
}

func (f watchedFile) tell(err error) error {
	if err != nil {
		f.lost(err)
	}
	return err
}
