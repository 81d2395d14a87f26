package proxy_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// While the process ends after a failure of the disk, a caller learns that it ends, and that nobody knows what became of the
// write: a 500 says neither, and fills the log after its last line.
func TestWritesWhileTheDiskHasFailed(t *testing.T) {
	var failing atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return errors.New("the disk fails")
		}
		return nil
	}))
	s := newSidecar(t, func(o *journal.Options, _ *proxy.Options) { o.FS, o.Fatal = fs, func(error) {} })
	wantStatus(t, s.do(http.MethodPut, "/memory/n/k", `{"value":"1"}`), http.StatusOK)
	failing.Store(true)
	s.failed = true
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		for range 2 { // with the failure, and after it
			w := s.do(method, "/memory/n/k", map[string]string{http.MethodPut: `{"value":"2"}`}[method])
			wantStatus(t, w, http.StatusServiceUnavailable)
			if !strings.Contains(w.Body.String(), "its disk has failed") || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: %v %s", method, w.Header(), w.Body)
			}
		}
	}
	if strings.Contains(s.log.String(), "request failed") {
		t.Error(s.log.String())
	}
}
