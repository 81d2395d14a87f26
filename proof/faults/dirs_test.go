//go:build faults && linux

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fastDir returns a directory in memory where there is one. Upstream's database is
// there: its speed is no part of any test.
func fastDir(t *testing.T) string {
	t.Helper()
	const memory = "/dev/shm"
	var fs syscall.Statfs_t
	if syscall.Statfs(memory, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < 256<<20 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "botwired-faults-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// smallDisk mounts a file system for one test. It unmounts it after the end of
// everything that the test starts later.
func smallDisk(t *testing.T, size int, options ...string) string {
	t.Helper()
	needRoot(t, "mounting a small disk")
	dir := t.TempDir()
	if err := syscall.Mount("faults", dir, "tmpfs", 0, strings.Join(append(options, "size="+strconv.Itoa(size)), ",")); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, errors.Join(err, syscall.Unmount(dir, syscall.MNT_DETACH)))
		}
	})
	return dir
}

func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	return int64(fs.Bavail) * fs.Bsize
}

// fillUp fills the rest of the disk with another program's file.
func fillUp(t *testing.T, dir string) (foreign string) {
	t.Helper()
	foreign = filepath.Join(dir, "foreign")
	f, err := os.Create(foreign)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if free := freeBytes(t, dir); free != 0 {
		t.Fatalf("%d bytes are still free", free)
	}
	return foreign
}
