package diskfs

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// shortFS has no free descriptor until a given time. Like the operating system, its ReuseForWrite
// renames the file before it fails.
type shortFS struct {
	vfs.FS
	err   error
	until time.Time
}

func (s shortFS) fail() error {
	if time.Now().Before(s.until) {
		return &os.PathError{Op: "open", Path: "x", Err: s.err}
	}
	return nil
}

func (s shortFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.FS.Create(name, c)
}

func (s shortFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.FS.Open(name, opts...)
}

func (s shortFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.FS.OpenReadWrite(name, c, opts...)
}

func (s shortFS) OpenDir(name string) (vfs.File, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.FS.OpenDir(name)
}

func (s shortFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.fail(); err != nil {
		return nil, errors.Join(s.Rename(from, to), err)
	}
	return s.FS.ReuseForWrite(from, to, c)
}

func (s shortFS) Lock(name string) (io.Closer, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.FS.Lock(name)
}

func (s shortFS) List(dir string) ([]string, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.FS.List(dir)
}

// openers are all ways to open a file, a directory or a lock.
var openers = map[string]func(vfs.FS) (io.Closer, error){
	"Create":        func(fs vfs.FS) (io.Closer, error) { return fs.Create("new", vfs.WriteCategoryUnspecified) },
	"Open":          func(fs vfs.FS) (io.Closer, error) { return fs.Open("old") },
	"OpenReadWrite": func(fs vfs.FS) (io.Closer, error) { return fs.OpenReadWrite("old", vfs.WriteCategoryUnspecified) },
	"OpenDir":       func(fs vfs.FS) (io.Closer, error) { return fs.OpenDir("") },
	"ReuseForWrite": func(fs vfs.FS) (io.Closer, error) {
		return fs.ReuseForWrite("old", "new", vfs.WriteCategoryUnspecified)
	},
	"Lock": func(fs vfs.FS) (io.Closer, error) { return fs.Lock("lock") },
	"List": func(fs vfs.FS) (io.Closer, error) { _, err := fs.List(""); return io.NopCloser(nil), err },
}

// Every way to open a file waits for a free descriptor, and only for that (contract 2).
func TestNoDescriptorIsNoFailedDisk(t *testing.T) {
	const short = 10 * time.Second
	for name, open := range openers {
		for fault, passes := range map[syscall.Errno]bool{syscall.EMFILE: true, syscall.ENFILE: true, syscall.EIO: false, syscall.ENOSPC: false} {
			t.Run(name+"/"+fault.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := vfs.NewMem()
					f, err := mem.Create("old", vfs.WriteCategoryUnspecified)
					if err = errors.Join(err, f.Close()); err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					opened, err := open(Patient(shortFS{mem, fault, began.Add(short)}, slog.New(slog.DiscardHandler)))
					waited := time.Since(began)
					if !passes {
						if !errors.Is(err, fault) || waited > 0 {
							t.Errorf("it waited %s for %v", waited, err)
						}
						return
					}
					if err != nil || waited < short || waited > short+lastOpenPause {
						t.Fatalf("after %s of a shortage of %s: %v", waited, short, err)
					}
					if err := opened.Close(); err != nil {
						t.Error(err)
					}
					if _, err := mem.Stat("old"); name == "ReuseForWrite" && !errors.Is(err, os.ErrNotExist) {
						t.Errorf("the reused file has its old name: %v", err)
					}
				})
			})
		}
	}
}

// One shortage gets one log line, regardless of how many callers wait; the next shortage gets another.
func TestShortageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		mem := vfs.NewMem()
		for shortages := 1; shortages <= 2; shortages++ {
			short := shortFS{mem, syscall.EMFILE, time.Now().Add(time.Minute)}
			fs := Patient(short, slog.New(slog.NewTextHandler(&log, nil)))
			var waiting sync.WaitGroup
			for range 10 {
				waiting.Go(func() {
					d, err := fs.OpenDir("")
					if err = errors.Join(err, d.Close()); err != nil {
						t.Error(err)
					}
				})
			}
			waiting.Wait()
			if lines := strings.Count(log.String(), "\n"); lines != shortages {
				t.Errorf("after %d shortages, the log has %d lines", shortages, lines)
			}
		}
	})
}

// interruptedFS reports an interruption by a signal first.
type interruptedFS struct {
	vfs.FS
	asked *int
}

func (i interruptedFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if *i.asked++; *i.asked < 3 {
		return vfs.DiskUsage{}, &os.PathError{Op: "statfs", Path: "x", Err: syscall.EINTR}
	}
	return vfs.DiskUsage{AvailBytes: 7}, nil
}

// A signal is no failure of the disk.
func TestInterruptedCall(t *testing.T) {
	usage, err := Patient(interruptedFS{vfs.NewMem(), new(int)}, slog.New(slog.DiscardHandler)).GetDiskUsage("x")
	if err != nil || usage.AvailBytes != 7 {
		t.Errorf("%d bytes are free (%v)", usage.AvailBytes, err)
	}
}
