package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"
)

// quietFor is how long the size of the disk must not change before bench takes it for at
// rest.
const quietFor = 3 * time.Second

// diskAtRest waits, within limits, until a folder's size no longer changes, and returns
// it in bytes.
func diskAtRest(ctx context.Context, dir string, within time.Duration) (int64, error) {
	began, last := time.Now(), int64(-1)
	for since := began; ; {
		size, err := sizeOf(dir)
		if err != nil {
			return 0, err
		}
		now := time.Now()
		if size != last {
			last, since = size, now
		}
		if now.Sub(since) >= quietFor || now.Sub(began) >= within {
			return size, nil
		}
		if err := sleep(ctx, quietFor/10); err != nil {
			return 0, err
		}
	}
}

// sizeOf returns the length of all files in a folder. The daemon may remove some
// meanwhile.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}
