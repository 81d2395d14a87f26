package natskv

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

type disk struct {
	mark Mark
	err  error
	n    int
}

func (d *disk) Load() (Mark, error) { return d.mark, d.err }

func (d *disk) Save(m Mark) error {
	if d.err == nil {
		d.mark = m
		d.n++
	}
	return d.err
}

func keeperOf(t *testing.T, d *disk) *keeper {
	t.Helper()
	k, err := newKeeper(Options{Bucket: "memory", Marks: d, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func wantRefusal(t *testing.T, k *keeper, verdict upstream.Verdict, says string) {
	t.Helper()
	refused := k.refuses()
	if refused == nil || refused.Verdict != verdict || !strings.Contains(refused.Reason, says) {
		t.Errorf("got %v, want %v: %s", refused, verdict, says)
	}
}

var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// On each connection, no request is made before the bucket was checked and its mark saved.
func TestMarkBeforeFirstRequest(t *testing.T) {
	d := &disk{}
	k := keeperOf(t, d)
	now := time.Now()
	wantRefusal(t, k, upstream.Unsent, "not been looked at")
	if !k.judge(Mark{Created: made, Revision: 5}, notAsked, 0, now) || k.refuses() != nil || d.mark.Revision != 5 {
		t.Fatalf("a new bucket is refused: %v; saved: %+v", k.refuses(), d.mark)
	}
	k.judge(Mark{Created: made, Revision: 5}, notAsked, 0, now.Add(time.Second))
	if d.n != 1 {
		t.Errorf("saved %d times", d.n)
	}
	k.judge(Mark{Created: made, Revision: 8}, notAsked, 0, now.Add(time.Second))
	if d.n != 2 || d.mark.Revision != 8 {
		t.Errorf("saved %d times: %+v", d.n, d.mark)
	}
	k.disconnected()
	wantRefusal(t, k, upstream.Unsent, "not been looked at")
	if k.judge(Mark{Created: made, Revision: 9}, notAsked, 0, now.Add(time.Minute)); k.refuses() == nil {
		t.Error("an answer by the connection that was lost counts for the new one")
	}
	if !k.judge(Mark{Created: made, Revision: 9}, notAsked, 1, now.Add(time.Minute)) || k.refuses() != nil {
		t.Errorf("refused after it was looked at: %v", k.refuses())
	}
}

// A bucket counts as having lost writes if it looks like that for some seconds. It is admitted again
// only if it is the old one again, or accepted.
func TestMarkLost(t *testing.T) {
	for says, c := range map[string]struct {
		there Mark
		after time.Duration
	}{
		"made anew":                             {Mark{Created: made.Add(time.Hour), Revision: 200}, certainAfter},
		"last revision went back from 100 to 7": {Mark{Created: made, Revision: 7}, certainAfter},
		"memory is gone":                        {Mark{}, goneAfter},
	} {
		old := Mark{Created: made, Revision: 100, Latest: 3}
		d := &disk{mark: old}
		k := keeperOf(t, d)
		now := time.Now()
		k.judge(c.there, notAsked, 0, now)
		wantRefusal(t, k, upstream.Unsent, "looked at again")
		k.judge(c.there, notAsked, 0, now.Add(c.after-1))
		wantRefusal(t, k, upstream.Unsent, "looked at again")
		if k.judge(c.there, notAsked, 0, now.Add(c.after)) {
			t.Errorf("%s: believed", says)
		}
		wantRefusal(t, k, upstream.Paused, says)
		if d.mark != old {
			t.Errorf("%s: the mark was moved to %+v", says, d.mark)
		}
		if !k.judge(Mark{Created: made, Revision: 101}, notAsked, 0, now.Add(time.Minute)) || k.lostWhy() != "" {
			t.Errorf("%s: the old bucket is back, and refused: %v", says, k.refuses())
		}
		k.judge(c.there, notAsked, 0, now.Add(time.Hour))
		k.judge(c.there, notAsked, 0, now.Add(2*time.Hour))
		if accepted, err := k.accept(); !accepted || err != nil || !d.mark.Created.Equal(c.there.Created) || d.mark.Revision != c.there.Revision {
			t.Errorf("%s: accepted: %v, %v, saved %+v", says, accepted, err, d.mark)
		}
		if !c.there.Created.IsZero() && !k.judge(c.there, notAsked, k.current(), now.Add(3*time.Hour)) {
			t.Errorf("%s: refused after it was accepted: %v", says, k.refuses())
		}
	}
}

// A revision that was known before the leader was asked joins the mark if the leader has twice in a row
// not reached it.
func TestMarkLags(t *testing.T) {
	d := &disk{mark: Mark{Created: made, Revision: 5}}
	k := keeperOf(t, d)
	now := time.Now()
	there := Mark{Created: made, Revision: 7}
	if !k.lags(there, 10, 0) || k.lags(there, 7, 0) || !k.lags(there, 10, 0) {
		t.Error("a leader that comes to the revision is not waited for")
	}
	if k.disconnected(); k.lags(there, 10, 0) || !k.lags(there, 10, 1) {
		t.Error("an answer by the connection that was lost counts for the new one")
	}
	if k.lags(Mark{Created: made.Add(time.Hour), Revision: 7}, 10, 1) {
		t.Error("a bucket that was made anew is waited for")
	}
	k.lags(there, 10, 1)
	if k.lags(there, 10, 1) || k.judge(there, notAsked, 1, now) || d.mark.Revision != 10 {
		t.Errorf("after the second time the mark is %+v", d.mark)
	}
	k.judge(there, notAsked, 1, now.Add(certainAfter))
	wantRefusal(t, k, upstream.Paused, "went back from 10 to 7")
	if accepted, err := k.accept(); !accepted || err != nil {
		t.Fatal(accepted, err)
	}
	k.lags(there, 10, 1)
	if k.lags(there, 10, 1); d.mark.Revision != 7 {
		t.Errorf("an answer from before the bucket was accepted has moved the mark to %+v", d.mark)
	}
}

// Who waits for the bucket is told when it can be used again: after it was unusable, and after its leader had no
// majority, but not at each look.
func TestMarkUsableAgain(t *testing.T) {
	k := keeperOf(t, &disk{})
	told := 0
	k.onUsable = func() { told++ }
	there, now := Mark{Created: made, Revision: 5}, time.Now()
	for i, broken := range []func(){
		func() {},
		func() { k.fails(refusal(upstream.Paused, "allow_direct"), true, 0) },
		func() { k.lacksMajority("no majority: start another server") },
	} {
		broken()
		if i == 2 {
			wantRefusal(t, k, upstream.Unsent, "start another server")
		}
		for range 3 {
			if !k.judge(there, notAsked, 0, now) || k.refuses() != nil {
				t.Fatalf("refused: %v", k.refuses())
			}
		}
		if told != i+1 {
			t.Errorf("told %d times after %d breaks", told, i)
		}
	}
}

// A bucket that only looked as if it had lost writes is used again.
func TestMarkDoubt(t *testing.T) {
	k := keeperOf(t, &disk{mark: Mark{Created: made, Revision: 100}})
	now := time.Now()
	k.judge(Mark{Created: made, Revision: 99}, notAsked, 0, now)
	if !k.judge(Mark{Created: made, Revision: 100}, notAsked, 0, now.Add(time.Second)) || k.refuses() != nil {
		t.Errorf("refused: %v", k.refuses())
	}
	if accepted, err := k.accept(); accepted || err != nil {
		t.Errorf("there was nothing to accept: %v, %v", accepted, err)
	}
}

// Others may have written past the mark's revision in a bucket that went back: then the message there is
// another one. If it is gone, entries that the bucket shows in an earlier version say so. Both outlive a
// restart, and end with the old bucket.
func TestMarkNamesItsMessage(t *testing.T) {
	now, at := time.Now(), made.Add(time.Hour)
	there := Mark{Created: made, Revision: 120, At: at.Add(time.Hour)}
	for says, of := range map[string]witness{"another message at revision 100": isOther, "earlier versions of entries": isMissing} {
		d := &disk{}
		k := keeperOf(t, d)
		if !k.judge(Mark{Created: made, Revision: 100, At: at}, notAsked, 0, now) || !d.mark.At.Equal(at) {
			t.Fatalf("saved: %+v", d.mark)
		}
		if _, asks := k.toWitness(&look{created: made, check: check{last: 120}}); asks {
			t.Error("the message is asked for at each look")
		}
		k.disconnected()
		for last, want := range map[uint64]bool{99: false, 100: true} {
			if mark, asks := k.toWitness(&look{created: made, check: check{last: last}}); asks != want || mark.Revision != 100 {
				t.Errorf("the message at revision %d is asked for with %d as the last one: %v", mark.Revision, last, asks)
			}
		}
		if of == isMissing {
			if !k.judge(there, isMissing, 1, now) || k.refuses() != nil {
				t.Error("a bucket whose message was replaced is refused")
			}
			if k.judge(there, notAsked, 1, now); d.mark.Revision != 100 {
				t.Errorf("the mark was moved to %+v before the bucket was read", d.mark)
			}
			k.read(true)
		}
		mark := d.mark
		if k.judge(there, of, 1, now) || k.judge(there, of, 1, now.Add(certainAfter)) {
			t.Error("believed")
		}
		wantRefusal(t, k, upstream.Paused, says)
		if d.mark.Revision != mark.Revision || !d.mark.At.Equal(mark.At) {
			t.Errorf("the mark was moved to %+v", d.mark)
		}
		k = keeperOf(t, d)
		if k.judge(there, of, 0, now) {
			t.Error("believed after a restart")
		}
		if !k.judge(there, isSame, 0, now) || k.refuses() != nil || d.mark.WentBack {
			t.Errorf("the old bucket is back, and refused: %v", k.refuses())
		}
	}
}

// What was seen since the last look counts if the leader did not break off before: then it may come from a bucket
// that went back. A message whose time of arrival is unknown is known by its entry and the version's time.
func TestMarkSeen(t *testing.T) {
	now, id := time.Now(), journal.ID{Namespace: "ns", Key: "k"}
	d := &disk{}
	k := keeperOf(t, d)
	k.sees(Mark{Revision: 50})
	if !k.judge(Mark{Created: made, Revision: 9, At: made}, notAsked, 0, now) || k.top().Revision != 9 {
		t.Fatalf("before the first look it has seen %+v", k.top())
	}
	k.sees(Mark{Revision: 12, Entry: id, Written: 7})
	k.sees(Mark{Revision: 11, At: made})
	if top := k.top(); top.Revision != 12 || top.Entry != id || !top.Created.Equal(made) || d.mark.Revision != 9 {
		t.Fatalf("it has seen %+v, and saved %+v", top, d.mark)
	}
	for name, broken := range map[string]func(k *keeper){
		"a lost connection": func(k *keeper) { k.disconnected() },
		"a silent leader":   func(k *keeper) { k.interrupt() },
	} {
		k := keeperOf(t, &disk{mark: Mark{Created: made, Revision: 9, At: made}})
		k.judge(Mark{Created: made, Revision: 9, At: made}, isSame, 0, now)
		k.sees(Mark{Revision: 12, Entry: id, Written: 7})
		broken(k)
		k.sees(Mark{Revision: 20, At: made})
		k.raise()
		mark, asks := k.toWitness(&look{created: made, check: check{last: 20}})
		if !asks || mark.Revision != 12 {
			t.Errorf("after %s, the message at %d is asked for: %v", name, mark.Revision, asks)
		}
		other := journal.ID{Namespace: "ns", Key: "other"}
		if mark.judges(made, id, 7) != isSame || mark.judges(made, other, 7) != isOther || mark.judges(made, id, 8) != isOther {
			t.Error("the message is not known by its entry and time")
		}
		if k.judge(Mark{Created: made, Revision: 20}, isOther, k.current(), now) {
			t.Errorf("after %s, a bucket with another message is believed", name)
		}
	}
}

// If the mark's message is missing, the entry that it was about decides, once the bucket was read.
func TestMarkDenied(t *testing.T) {
	now, id := time.Now(), journal.ID{Namespace: "ns", Key: "k"}
	written := float64(now.Unix())
	for name, c := range map[string]struct {
		last    upstream.Version
		keepFor time.Duration
		denied  bool
	}{
		"a later version":               {last: upstream.Version{Revision: 30, WrittenAt: written + 1}},
		"the same time":                 {last: upstream.Version{Revision: 30, WrittenAt: written}},
		"an earlier version":            {last: upstream.Version{Revision: 5, WrittenAt: written - 1}, denied: true},
		"an earlier tombstone":          {last: upstream.Version{Revision: 5, WrittenAt: written - 1, Deleted: true}, denied: true},
		"no trace":                      {denied: true},
		"no trace of a recent write":    {keepFor: time.Hour, denied: true},
		"no trace after the tombstones": {keepFor: -time.Hour},
	} {
		k := keeperOf(t, &disk{mark: Mark{Created: made, Revision: 9, Entry: id, Written: written}})
		k.keepFor = c.keepFor
		last := func(journal.ID) upstream.Version { return c.last }
		if k.denied(last) {
			t.Errorf("%s: it is denied before the message is missing", name)
		}
		if !k.judge(Mark{Created: made, Revision: 20}, isMissing, 0, now) {
			t.Errorf("%s: refused", name)
		}
		k.sees(Mark{Revision: 30, Entry: id})
		if k.top().Revision != 9 {
			t.Errorf("%s: what is seen before the bucket was read counts", name)
		}
		if got := k.denied(last); got != c.denied {
			t.Errorf("%s: denied: %v", name, got)
		}
		if k.read(false); k.denied(func(journal.ID) upstream.Version { return upstream.Version{} }) {
			t.Errorf("%s: the message is missed again", name)
		}
	}
}

// If a mark cannot be saved, only Accept fails; if it cannot be loaded, the start fails.
func TestMarkDiskFails(t *testing.T) {
	full := errors.New("no space left")
	d := &disk{}
	k := keeperOf(t, d)
	d.err = full
	now := time.Now()
	if !k.judge(Mark{Created: made, Revision: 5}, notAsked, 0, now) {
		t.Errorf("refused: %v", k.refuses())
	}
	k.judge(Mark{Created: made, Revision: 1}, notAsked, 0, now)
	k.judge(Mark{Created: made, Revision: 1}, notAsked, 0, now.Add(time.Minute))
	if accepted, err := k.accept(); accepted || !errors.Is(err, full) || k.lostWhy() == "" {
		t.Errorf("accepted: %v, %v", accepted, err)
	}
	if _, err := newKeeper(Options{Bucket: "memory", Marks: d}); !errors.Is(err, full) {
		t.Errorf("opened with %v", err)
	}
}

// The latest time of an earlier process counts, unless it is far ahead of this machine's clock.
func TestMarkLatest(t *testing.T) {
	now := time.UnixMicro(1_000_000_000)
	for ahead, want := range map[time.Duration]int64{-time.Hour: now.Add(-time.Hour).UnixMicro(), time.Hour: 0} {
		k := keeperOf(t, &disk{mark: Mark{Created: made, Latest: seconds(now.Add(ahead).UnixMicro())}})
		if got := k.latest(now); got != want {
			t.Errorf("%v ahead: %d, want %d", ahead, got, want)
		}
	}
}
