package journal_test

import (
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// The process has no free file descriptor when the log is full and the next one begins. Writes wait,
// and the journal does not end (contract 2).
func TestNoDescriptorEndsNothing(t *testing.T) {
	refused := make(chan struct{})
	var once sync.Once
	f := newFailing(syscall.EMFILE, func(op errorfs.Op) bool {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpOpen, errorfs.OpOpenDir, errorfs.OpReuseForWrite, errorfs.OpList:
			once.Do(func() { close(refused) }) // only while the toggle is on
			return true
		}
		return false
	})
	j := f.open(t)
	put(t, j, key("before"), "1")
	f.fault.On()
	written := make(chan error, 1)
	go func() { written <- writeMuch(j) }()
	<-refused
	f.fault.Off()
	if err := <-written; err != nil {
		t.Error(err)
	}
	no(t, j.Close())
	if len(f.fatal) > 0 {
		t.Errorf("the journal ended: %v", f.fatal)
	}
}
