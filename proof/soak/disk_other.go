//go:build !linux

package main

import "os"

type disk struct {
	dir     string
	mounted bool
}

func newDisk() (*disk, error) {
	dir, err := os.MkdirTemp("", "botwired-soak-")
	return &disk{dir: dir}, err
}

func (d *disk) fill(int64) error { return nil }

func (d *disk) fillInodes(int) error { return nil }

func (d *disk) free() error { return nil }

func (d *disk) remove() error { return os.RemoveAll(d.dir) }

func (d *daemon) allow(uint64) error { return nil }

func (d *daemon) starve(int) error { return nil }
