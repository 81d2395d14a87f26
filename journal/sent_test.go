package journal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

func content(value string) journal.Content { return journal.ContentOf(journal.Put, value) }

var gone = journal.ContentOf(journal.Delete, "")

// contract 14: what requests may have left upstream is known, each state once, also after a crash. A write that was
// never sent is not among it.
func TestLeft(t *testing.T) {
	a := key("a")
	for name, row := range map[string]struct {
		use        func(*testing.T, *journal.Journal)
		want, then []journal.Content // beside the pending write, and with it after a restart, which may have sent it
	}{
		"nothing":        {func(t *testing.T, j *journal.Journal) { put(t, j, a, "1") }, nil, []journal.Content{content("1")}},
		"never sent":     {func(t *testing.T, j *journal.Journal) { put(t, j, a, "1"); put(t, j, a, "2") }, nil, []journal.Content{content("2")}},
		"sent":           {func(t *testing.T, j *journal.Journal) { sent(t, j, put(t, j, a, "1")) }, nil, []journal.Content{content("1")}},
		"sent, replaced": {func(t *testing.T, j *journal.Journal) { sent(t, j, put(t, j, a, "1")); put(t, j, a, "2") }, []journal.Content{content("1")}, []journal.Content{content("1"), content("2")}},
		"sent, replaced by ones that were not": {func(t *testing.T, j *journal.Journal) {
			sent(t, j, put(t, j, a, "1"))
			put(t, j, a, "2")
			put(t, j, a, "3")
		}, []journal.Content{content("1")}, []journal.Content{content("1"), content("3")}},
		"sent as it was replaced": {func(t *testing.T, j *journal.Journal) {
			w := put(t, j, a, "1")
			put(t, j, a, "2")
			if before, err := j.MarkSent(w); before || err != nil {
				t.Errorf("%v, %v", before, err)
			}
		}, []journal.Content{content("1")}, []journal.Content{content("1"), content("2")}},
		"the same again": {func(t *testing.T, j *journal.Journal) {
			for _, value := range []string{"1", "2", "1"} {
				sent(t, j, put(t, j, a, value))
			}
			sent(t, j, remove(t, j, a))
			put(t, j, a, "3")
		}, []journal.Content{content("2"), content("1"), gone}, []journal.Content{content("2"), content("1"), gone, content("3")}},
		"taken back": {func(t *testing.T, j *journal.Journal) {
			no(t, j.UnmarkSent(sent(t, j, put(t, j, a, "1"))))
			put(t, j, a, "2")
		}, nil, []journal.Content{content("2")}},
		"taken back as a newer one waits": {func(t *testing.T, j *journal.Journal) {
			w := sent(t, j, put(t, j, a, "1"))
			put(t, j, a, "2")
			no(t, j.UnmarkSent(w))
		}, nil, []journal.Content{content("2")}},
		"taken back, beside an older one": {func(t *testing.T, j *journal.Journal) {
			sent(t, j, put(t, j, a, "1"))
			w := sent(t, j, put(t, j, a, "2"))
			put(t, j, a, "3")
			no(t, j.UnmarkSent(w))
		}, []journal.Content{content("1")}, []journal.Content{content("1"), content("3")}},
		"like one before": {func(t *testing.T, j *journal.Journal) {
			sent(t, j, put(t, j, a, "1"))
			put(t, j, a, "2")
			w := put(t, j, a, "1")
			if before, err := j.MarkSent(w); !before || err != nil { // so nobody takes that back
				t.Errorf("%v, %v", before, err)
			}
		}, []journal.Content{content("1")}, []journal.Content{content("1")}},
		"like one before, as it was replaced": {func(t *testing.T, j *journal.Journal) {
			sent(t, j, put(t, j, a, "1"))
			w := put(t, j, a, "1")
			put(t, j, a, "2")
			if before, err := j.MarkSent(w); !before || err != nil {
				t.Errorf("%v, %v", before, err)
			}
		}, []journal.Content{content("1")}, []journal.Content{content("1"), content("2")}},
		"settled": {func(t *testing.T, j *journal.Journal) {
			sent(t, j, put(t, j, a, "1"))
			put(t, j, a, "2")
			settle(t, j, a)
		}, nil, nil},
		"settled as a newer one waits": {func(t *testing.T, j *journal.Journal) {
			w := sent(t, j, put(t, j, a, "1"))
			put(t, j, a, "2")
			no(t, j.Settle(w))
		}, nil, []journal.Content{content("2")}},
		"beaten": {func(t *testing.T, j *journal.Journal) {
			sent(t, j, put(t, j, a, "1"))
			no(t, j.Fence.Lose(put(t, j, a, "2"), foreign("theirs", 20), "later"))
		}, nil, nil},
		"dropped": {func(t *testing.T, j *journal.Journal) {
			sent(t, j, put(t, j, a, "1"))
			no(t, j.DeadLetter(sent(t, j, put(t, j, a, "2")), journal.Failure{Kind: journal.Dropped}))
		}, []journal.Content{content("1"), content("2")}, []journal.Content{content("1"), content("2")}},
		"dropped unsent": {func(t *testing.T, j *journal.Journal) {
			no(t, j.DeadLetter(put(t, j, a, "1"), journal.Failure{Kind: journal.Dropped}))
		}, nil, nil},
		"refused as a newer one waits": {func(t *testing.T, j *journal.Journal) {
			w := sent(t, j, put(t, j, a, "1"))
			put(t, j, a, "2")
			no(t, j.DeadLetter(w, journal.Failure{Status: 400}))
		}, []journal.Content{content("1")}, []journal.Content{content("1"), content("2")}},
		"purged": {func(t *testing.T, j *journal.Journal) {
			no(t, j.DeadLetter(sent(t, j, put(t, j, a, "1")), journal.Failure{Kind: journal.Dropped}))
			_, err := j.Purge(t.Context(), "ns", "a", 1<<40)
			no(t, err)
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs)
			no(t, j.Run(t.Context()))
			row.use(t, j)
			check(t, j)
			if diff := cmp.Diff(row.want, leftOf(t, j, a)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			j = open(t, crash(fs))
			w, _, err := j.Newest(a)
			no(t, err)
			w.ID = a
			left, known, err := j.Left(w)
			if diff := cmp.Diff(row.then, left); diff != "" || known == (name == "purged") || err != nil {
				t.Errorf("left after a crash (-want +got):\n%s%v, %v", diff, known, err)
			}
		})
	}
}

// An outage of days does not fill the disk with what a busy entry may have left.
func TestLeftIsBounded(t *testing.T) {
	j := open(t, vfs.NewMem())
	for i := range 200 {
		sent(t, j, put(t, j, key("a"), string(rune('a'+i))))
	}
	if left := leftOf(t, j, key("a")); len(left) != 64 || left[63] != content(string(rune('a'+198))) {
		t.Errorf("%d contents", len(left))
	}
}

// bootClock is the clock of a machine that the test boots.
type bootClock struct {
	boot string
	now  time.Duration
}

func (c *bootClock) read() (string, time.Duration) { return c.boot, c.now }

// contract 14: after a crash the journal knows how long nothing has been sent, by the clock of this boot. It keeps that
// time once a second.
func TestSending(t *testing.T) {
	fs := vfs.NewCrashableMem()
	clock := &bootClock{"first", time.Hour}
	clocked := func(o *journal.Options) { o.BootClock = clock.read }
	j := open(t, fs, clocked)
	expectAgo := func(j *journal.Journal, want time.Duration, wantOK bool) {
		t.Helper()
		if ago, ok, err := j.LastSending(); ago != want || ok != wantOK || err != nil {
			t.Errorf("%s ago: %v, %v; want %s: %v", ago, ok, err, want, wantOK)
		}
	}
	put(t, j, key("a"), "1")
	expectAgo(open(t, crash(fs), clocked), 0, false) // nothing was ever sent
	no(t, j.BeginSending())
	before := crash(fs)
	clock.now += 900 * time.Millisecond
	no(t, j.BeginSending()) // the kept time covers it
	clock.now += 9*time.Second + 100*time.Millisecond
	expectAgo(open(t, before, clocked), 9*time.Second, true)
	expectAgo(open(t, crash(fs), clocked), 9*time.Second, true)
	no(t, j.BeginSending())
	expectAgo(open(t, crash(fs), clocked), 0, true)
	clock.now += 500 * time.Millisecond
	expectAgo(open(t, crash(fs), clocked), 0, true) // perhaps just now
	clock.boot, clock.now = "second", 2*time.Hour
	expectAgo(open(t, crash(fs), clocked), 0, true) // nobody knows when
	no(t, j.BeginSending())
	clock.now += 11 * time.Second
	expectAgo(open(t, crash(fs), clocked), 10*time.Second, true)
	no(t, j.EndSending())
	expectAgo(open(t, crash(fs), clocked), 0, false)
	no(t, j.EndSending())
	no(t, j.BeginSending())
	killed := crash(fs)
	next := open(t, killed, clocked)
	clock.now += time.Minute
	expectAgo(next, 59*time.Second, true)
	no(t, next.EndSending()) // though this process has sent nothing
	expectAgo(open(t, crash(killed), clocked), 0, false)
	clock.boot = "" // it cannot be read any more
	no(t, j.BeginSending())
	clock.boot = "second"
	expectAgo(open(t, crash(fs), clocked), 0, true)
	clock.boot = ""
	clock.now = 0
	expectAgo(open(t, crash(fs), clocked), 0, true)
}

// contract 14: a directory of a botwired that kept no time says only that something was sent.
func TestSendingOfAnOlderDirectory(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	sent(t, j, put(t, j, key("a"), "1"))
	put(t, j, key("a"), "2")
	if ago, ok, err := open(t, crash(fs)).LastSending(); ago != 0 || !ok || err != nil {
		t.Errorf("%s ago: %v, %v", ago, ok, err)
	}
}

// contract 14: what certainly was answered lets a start send at once. A request that was not answered leaves its entry
// pending, or, if its write was dropped, what upstream may hold of it; a recovery may have lost that.
func TestSendingOfWhatWasAnswered(t *testing.T) {
	a := key("a")
	for name, row := range map[string]struct {
		use  func(*testing.T, *journal.Journal)
		want bool
	}{
		"settled": {func(t *testing.T, j *journal.Journal) { settle(t, j, a) }, false},
		"refused": {func(t *testing.T, j *journal.Journal) {
			no(t, j.UnmarkSent(newestOf(t, j, a)))
			no(t, j.DeadLetter(newestOf(t, j, a), journal.Failure{Status: 422}))
		}, false},
		"beaten": {func(t *testing.T, j *journal.Journal) {
			no(t, j.Fence.Lose(newestOf(t, j, a), foreign("theirs", 20), "later"))
		}, false},
		"pending":    {func(*testing.T, *journal.Journal) {}, true},
		"another is": {func(t *testing.T, j *journal.Journal) { settle(t, j, a); put(t, j, key("b"), "1") }, true},
		"dropped": {func(t *testing.T, j *journal.Journal) {
			no(t, j.DeadLetter(newestOf(t, j, a), journal.Failure{Kind: journal.Dropped}))
		}, true},
		"dropped, purged": {func(t *testing.T, j *journal.Journal) {
			no(t, j.DeadLetter(newestOf(t, j, a), journal.Failure{Kind: journal.Dropped}))
			_, err := j.Purge(t.Context(), "ns", "a", 1<<40)
			no(t, err)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs)
			no(t, j.Run(t.Context()))
			no(t, j.BeginSending())
			sent(t, j, put(t, j, a, "1"))
			row.use(t, j)
			killed := crash(fs)
			next := open(t, killed)
			put(t, next, key("new"), "v") // a caller is faster than the flusher
			if _, ok, err := next.LastSending(); ok != row.want || err != nil {
				t.Errorf("something may have been left: %v, %v", ok, err)
			}
			no(t, next.EndSending())
			if _, ok, err := open(t, crash(killed)).LastSending(); ok || err != nil {
				t.Errorf("after an end in good order: %v, %v", ok, err)
			}
		})
	}
}

func newestOf(t *testing.T, j *journal.Journal, id journal.ID) journal.Write {
	t.Helper()
	w, _, err := j.Newest(id)
	no(t, err)
	return w
}

// contract 14: a recovery may have lost what was pending, so a start waits though nothing is.
func TestSendingOfWhatARecoveryHasLost(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	no(t, j.BeginSending())
	sent(t, j, put(t, j, key("a"), "it is lost"))
	put(t, j, key("b"), "1")
	settle(t, j, key("b"))
	files := readAll(t, crash(fs))
	for name, text := range files {
		files[name] = strings.ReplaceAll(text, "it is lost", "it is gone")
	}
	killed := diskWith(t, files)
	r, err := recoverAll(killed)
	no(t, err)
	next := open(t, killed)
	if ago, ok, err := next.LastSending(); r.Healthy || next.Stats().Pending != 0 || ago != 0 || !ok || err != nil {
		t.Errorf("%+v: %d pending, sent %s ago: %v, %v", r, next.Stats().Pending, ago, ok, err)
	}
}
