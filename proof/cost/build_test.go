package main

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// The daemon has no file of its own in the place of the one that is added to it.
func TestTheFileIsOneMore(t *testing.T) {
	t.Chdir("../..")
	if _, err := os.Stat(heapCounts); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(amongOwn); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the daemon has a file %s: %v", amongOwn, err)
	}
}
