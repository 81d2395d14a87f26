package journal

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A call after Close returns ErrClosed, not a disk failure.
func TestCallsAfterClose(t *testing.T) {
	j, err := Open(Options{Dir: "j", FS: vfs.NewMem(), Fatal: func(err error) { t.Errorf("the disk failed: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	listing := j.BeginListing("ns")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	id := ID{Namespace: "ns", Key: "key"}
	w := Write{ID: id, Seq: 1, Op: Put, Value: "1"}
	for name, call := range map[string]func() error{
		"Append":                      func() error { _, err := j.Append(NewWrite{ID: id, Op: Put, Value: "1"}); return err },
		"DeadLetter":                  func() error { return j.DeadLetter(w, Failure{Status: 422, Reason: "no"}) },
		"Commit":                      func() error { return listing.Commit(nil, true) },
		"ReadDeadLetter":              func() error { _, err := j.ReadDeadLetter(1); return err },
		"DeadLetters":                 func() error { _, err := j.DeadLetters(0, 1000); return err },
		"Discard":                     func() error { return j.Discard(1) },
		"Err":                         j.Err,
		"Fill":                        func() error { _, err := j.Fill(id, nil, func() bool { return true }); return err },
		"Holdings":                    func() error { _, err := j.Holdings(); return err },
		"Listing":                     func() error { _, _, err := j.Listing("ns", allRows); return err },
		"Lookup":                      func() error { _, err := j.Lookup(id); return err },
		"MaySend":                     j.MaySend,
		"BeginSending":                j.BeginSending,
		"EndSending":                  j.EndSending,
		"LastSending":                 func() error { _, _, err := j.LastSending(); return err },
		"MarkSent":                    func() error { _, err := j.MarkSent(w); return err },
		"UnmarkSent":                  func() error { return j.UnmarkSent(w) },
		"Left":                        func() error { _, _, err := j.Left(w); return err },
		"Newest":                      func() error { _, _, err := j.Newest(id); return err },
		"VisitPending":                func() error { return j.VisitPending("ns", func(Pending) {}) },
		"Retry":                       func() error { _, err := j.Retry(1, AnyWrite); return err },
		"Run":                         func() error { return j.Run(t.Context()) },
		"Settle":                      func() error { return j.Settle(w) },
		"Fence.Base":                  func() error { _, err := j.Fence.Base(id); return err },
		"Fence.Lose":                  func() error { return j.Fence.Lose(w, Observation{Value: "2"}, "later") },
		"Fence.LoseToDelete":          func() error { return j.Fence.LoseToDelete(w, 1, "later") },
		"Fence.KeepOverwrittenDelete": func() error { return j.Fence.KeepOverwrittenDelete(w.ID, 1) },
		"Fence.KeepOverwritten":       func() error { return j.Fence.KeepOverwritten(w.ID, Observation{Value: "2"}) },
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
