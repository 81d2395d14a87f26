package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// contract 13: a purge that ends a restoration also takes what the restoration was still writing.
func TestAPurgeTakesWhatARestorationWasWriting(t *testing.T) {
	for _, of := range []string{"namespace=ns", "namespace=ns&local=true"} {
		t.Run(of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stalled atomic.Pointer[chan struct{}]
				s := newSidecar(t, careful, func(stored *journal.Options, _ *proxy.Options) {
					stored.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
						isSync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
						if until := stalled.Load(); until != nil && isSync && strings.HasSuffix(op.Path, ".log") {
							<-*until
						}
						return nil
					}))
				})
				s.lose()
				lists := s.upstream.hold()
				restoring := s.begin(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1h", "")
				close((<-lists).answer) // the request's own
				list := <-lists         // the restoration's
				until := make(chan struct{})
				stalled.Store(&until)
				s.upstream.release()
				close(list.answer)
				synctest.Wait() // its first write waits for the disk
				purging := s.begin(http.MethodPost, "/_botwired/purge?"+of, "")
				synctest.Wait()
				stalled.Store(nil)
				close(until)
				var doc api.Purged
				w := <-purging
				wantStatus(t, w, http.StatusOK)
				decode(t, w, &doc)
				<-restoring
				if n := len(s.journal.PendingList("ns", 100)); !doc.Done || doc.Pending != 0 || n != 0 {
					t.Errorf("%d are pending after %+v", n, doc)
				}
				for i := range 20 {
					if _, held := s.upstream.holds(id("ns", "key-"+fmt.Sprint(i))); held {
						t.Fatalf("upstream holds %d again after %+v", i, doc)
					}
				}
			})
		})
	}
}

// A restoration that is asked for while an earlier one ends begins anew, and is not taken for that one.
func TestARestorationIsAskedForWhileAnotherEnds(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.lose()
		first := s.begin(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1h", "")
		synctest.Wait()
		lists := s.upstream.hold()
		s.refuse(id("ns", "key-3"))
		s.settleAll("ns")
		close((<-lists).answer) // upstream lacks what it has refused, and the restoration ends
		last := <-lists         // the journal judges by this list
		second := s.begin(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1h", "")
		again := <-lists
		s.upstream.release()
		close(again.answer)
		synctest.Wait()
		close(last.answer)
		synctest.Wait()
		s.settleAll("ns")
		<-first
		var doc api.Restoration
		decode(t, <-second, &doc)
		if doc.Restored != 1 || doc.Left != 0 {
			t.Errorf("the second one: %+v", doc)
		}
		if suspect := s.dataLoss("ns"); suspect != nil {
			t.Errorf("%+v", suspect)
		}
	})
}
