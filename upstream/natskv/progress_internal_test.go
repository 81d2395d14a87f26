package natskv

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// steps makes the calls of a watch, with a clock of its own.
type steps struct {
	*progress
	now time.Time
}

func newSteps() *steps {
	s := &steps{&progress{}, time.Now()}
	s.begin(true, 0)
	s.opened()
	return s
}

// checked adds a comparison, now, that found a last revision.
func (s *steps) checked(last uint64) (asked time.Time) {
	s.now = time.Now()
	s.compare(check{asked: s.now, last: last})
	return s.now
}

func (s *steps) wantAsOf(t *testing.T, want time.Time) {
	t.Helper()
	for s.promote() {
	}
	if !s.asOf.Equal(want) {
		t.Errorf("complete up to %v, want %v", s.asOf, want)
	}
}

// The index is complete up to a comparison once the watch has reached its revision with nothing after
// it.
func TestProgressCatchesUp(t *testing.T) {
	s := newSteps()
	first := s.checked(0)
	s.wantAsOf(t, first)
	s.event(5, 2)
	second := s.checked(7)
	s.wantAsOf(t, first)
	s.event(6, 1)
	s.event(7, 0)
	s.wantAsOf(t, second)
	s.ended()
	s.checked(7)
	s.wantAsOf(t, second) // no session delivers events
	s.begin(false, 7)
	s.opened()
	s.wantAsOf(t, second) // earlier comparisons do not count
	s.wantAsOf(t, second)
	third := s.checked(7)
	s.wantAsOf(t, third)
}

// While messages follow, a position alone proves nothing: an earlier version may have been replaced by
// one that is still to come. It does once the watch has passed what the stream held then.
func TestProgressAmidMessages(t *testing.T) {
	s := newSteps()
	first := s.checked(0)
	s.wantAsOf(t, first)
	second := s.checked(10)
	s.event(11, 50)
	s.wantAsOf(t, first)
	s.checked(40)
	s.event(39, 60)
	s.wantAsOf(t, first)
	s.event(40, 60)
	s.wantAsOf(t, second)
}

// While the whole bucket is read, its last versions come in order: only the last one shows that all
// have come.
func TestProgressLoads(t *testing.T) {
	s := &steps{&progress{}, time.Now()}
	s.begin(true, 100)
	s.opened()
	asked := s.checked(100)
	s.event(90, 10)
	if s.at() != 0 {
		t.Error("a position before all last versions have come")
	}
	s.wantAsOf(t, time.Time{})
	s.event(100, 0)
	s.wantAsOf(t, asked)
	if !s.hasToLoad(time.Now()) {
		t.Error("a reading that nobody has ended need not begin again")
	}
	s.loaded()
	if s.hasToLoad(time.Now()) || !s.hasToLoad(time.Now().Add(awayFor+time.Minute)) {
		t.Error("whether to read the whole bucket again is decided wrongly")
	}
}

// If the stream's last messages were removed, the watch has still reached its end.
func TestProgressNothingAfter(t *testing.T) {
	s := newSteps()
	s.event(5, 0)
	before := check{asked: time.Now(), last: 9}
	if s.asleep(before, s.counted()) {
		asked := s.checked(9)
		s.nothingAfter(6, 9)
		s.wantAsOf(t, time.Time{})
		s.nothingAfter(5, 9)
		s.wantAsOf(t, asked)
		return
	}
	t.Error("a watch that lacks four revisions counts as awake")
}

// A watch that is behind and gets few events is asleep; one that gets many is busy.
func TestProgressAsleep(t *testing.T) {
	s := newSteps()
	before := check{asked: time.Now(), last: 1000}
	for i := range busy - 1 {
		s.event(uint64(i+1), 500)
	}
	if !s.asleep(before, 0) {
		t.Error("a watch that is behind, with less than busy events, counts as awake")
	}
	s.event(busy, 500)
	if s.asleep(before, 0) {
		t.Error("a busy one counts as asleep")
	}
	if s.asleep(check{asked: s.began.Add(-time.Second), last: 1000}, busy) {
		t.Error("a new one counts as asleep by a comparison from before it began")
	}
	s.event(1000, 0)
	if s.asleep(before, busy+1) {
		t.Error("one that has caught up counts as asleep")
	}
}

// A view that was never sound is logged once, when it should have become sound.
func TestAViewThatNeverWasSoundIsTold(t *testing.T) {
	var p progress
	p.since = time.Now()
	if p.becomes(false, "no server") {
		t.Error("told at once: the servers may answer yet")
	}
	p.since = time.Now().Add(-soundFor - time.Second)
	if !p.becomes(false, "no server") {
		t.Error("never told")
	}
	if p.becomes(false, "no server") {
		t.Error("told twice")
	}
	if !p.becomes(true, "") || !p.becomes(false, "cut off") {
		t.Error("a change is not told")
	}
}

// A good comparison counts for soundFor, by the clock that shows more.
func TestProgressExpires(t *testing.T) {
	s := newSteps()
	asked := s.checked(0)
	s.wantAsOf(t, asked)
	s.becomes(true, "")
	if _, since, ok := s.isSound(asked.Add(soundFor)); !ok || !since.Equal(asked) {
		t.Errorf("sound: %v, since %v; want since %v", ok, since, asked)
	}
	if _, _, ok := s.isSound(asked.Add(soundFor + 1)); ok {
		t.Error("sound for too long")
	}
	asleep := asked.Round(0).Add(time.Hour) // only the wall clock has advanced: the machine slept
	if _, _, ok := s.isSound(asleep); ok {
		t.Error("sound after the machine has slept for an hour")
	}
	if stale, wasSound := s.stale(asleep); !stale || !wasSound {
		t.Errorf("after the machine has slept for an hour: stale %v, was sound %v", stale, wasSound)
	}
}

// The age of a leader's answer is that of the last server needed for a majority.
func TestQuorumAge(t *testing.T) {
	peer := func(age time.Duration) *jetstream.PeerInfo {
		return &jetstream.PeerInfo{Active: age, Current: true}
	}
	for name, c := range map[string]struct {
		peers []*jetstream.PeerInfo
		want  time.Duration
	}{
		"one server":             {nil, 0},
		"three":                  {[]*jetstream.PeerInfo{peer(9 * time.Second), peer(time.Second)}, time.Second},
		"five":                   {[]*jetstream.PeerInfo{peer(4), peer(2), peer(1), peer(3)}, 2},
		"one of three is gone":   {[]*jetstream.PeerInfo{peer(2), {Offline: true}}, 2},
		"none was heard":         {[]*jetstream.PeerInfo{{}, {}}, never},
		"one is no server":       {[]*jetstream.PeerInfo{nil, peer(3)}, 3},
		"a time to come":         {[]*jetstream.PeerInfo{peer(-time.Hour)}, never},
		"two servers":            {[]*jetstream.PeerInfo{peer(5)}, 5},
		"two of four are silent": {[]*jetstream.PeerInfo{peer(1), peer(time.Hour), peer(time.Hour)}, time.Hour},
	} {
		if got := quorumAge(&jetstream.ClusterInfo{Replicas: c.peers}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
