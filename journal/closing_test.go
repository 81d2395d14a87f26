package journal

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// contract 2: a table that cannot be written while the journal is being closed loses
// nothing, but the process must not end as if the disk were well.
func TestTableThatFailsWhileClosing(t *testing.T) {
	begun, fail := make(chan struct{}), make(chan struct{})
	var once sync.Once
	armed := false
	fs := errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !armed || op.Kind != errorfs.OpCreate || !strings.HasSuffix(op.Path, ".sst") {
			return nil
		}
		once.Do(func() { close(begun) })
		<-fail
		return syscall.EIO
	}))
	j := openOn(t, fs)
	if _, err := j.Append(NewWrite{ID: ID{"ns", "key"}, Op: Put, Value: "1"}); err != nil {
		t.Fatal(err)
	}
	armed = true
	if err := j.RotateLog(); err != nil {
		t.Fatal(err)
	}
	<-begun
	j.closing.Store(true) // as Close does, before it waits for the table
	closed := make(chan error)
	go func() { closed <- j.Close() }()
	close(fail)
	if err := <-closed; !errors.Is(err, syscall.EIO) {
		t.Errorf("closing: %v", err)
	}
	if j.failed.Load() {
		t.Error("the process would have been ended amid its end")
	}
}
