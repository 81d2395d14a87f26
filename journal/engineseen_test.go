package journal_test

import (
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// What upstream's engine has seen is as durable as each state that upstream has confirmed: a write or a delete that
// settles, and an answer with or without a value. It stays through a recovery.
func TestEngineSeen(t *testing.T) {
	fs := vfs.NewCrashableMem()
	now := 0
	j := open(t, fs, func(o *journal.Options) {
		o.Seen = func() []byte {
			if now == 0 {
				return nil
			}
			return []byte("seen " + strconv.Itoa(now))
		}
	})
	a := key("a")
	kept := func(j *journal.Journal, want string) {
		t.Helper()
		if seen, err := j.Seen(); err != nil || string(seen) != want {
			t.Errorf("%q is kept, %v, want %q", seen, err, want)
		}
	}
	put(t, j, a, "1")
	settle(t, j, a)
	kept(j, "")
	for i, confirm := range []func(){
		func() { put(t, j, a, "2"); settle(t, j, a) },
		func() { remove(t, j, a); settle(t, j, a) },
		func() { no(t, second(j.Fill(a, observed("3"), always))) },
		func() { no(t, second(j.Fill(a, nil, always))) },
	} {
		now = i + 1
		confirm()
		kept(j, "seen "+strconv.Itoa(now))
		kept(open(t, crash(fs)), "seen "+strconv.Itoa(now))
	}
	put(t, j, a, "4")
	now = 9
	kept(j, "seen 4")
	no(t, j.Close())
	no(t, fs.Remove(fs.PathJoin(dir, "MARK")))
	if r, err := recoverAll(fs); err != nil || len(r.Missing.Records) > 0 {
		t.Errorf("the report is %+v, %v", r, err)
	}
	kept(open(t, fs), "seen 4")
}
