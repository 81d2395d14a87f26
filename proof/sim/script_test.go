package sim

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// action is the kind of a step.
type action uint8

const (
	put      action = iota
	remove          // DELETE
	get             // as an agent would
	insist          // GET with no-cache
	list            // LIST
	wait            // let time pass
	become          // change upstream's health
	crash           // lose what is not synced, and start again
	crashIn         // crash while a write is being synced
	restart         // flush for a while, stop in good order, and start again
	forget          // upstream loses everything
	flushAll        // POST /_botwired/flush
	squeeze         // somebody else fills the disk, or makes room
	foreign         // another host writes to an entry upstream
	actions         // their number

	setBack // upstream's clock, in scripts without other hosts: until it has caught up, theirs do not count

	undo  // only in histories that are checked for linearizability
	drop  // of a pending write
	retry // of a dropped one
	purge
	bringBack // undo to a version that the caller picks, one that is lost if there is any
	restore   // of the namespace
	lose      // upstream loses what the daemon has written to an entry
)

// writes reports whether the action may change an entry.
func (a action) writes() bool {
	return a == put || a == remove || a == undo || a == drop || a == retry || a == purge || a == bringBack || a == foreign
}

func (a action) String() string {
	return [...]string{"put", "remove", "get", "insist", "list", "wait", "become", "crash", "crashIn", "restart", "forget", "flushAll", "squeeze", "foreign", "", "setBack", "undo", "drop", "retry", "purge", "bringBack", "restore", "lose"}[a]
}

// weights are the relative frequencies of the actions.
var weights = [actions]int{
	put: 10, remove: 4, get: 5, insist: 1, list: 2, wait: 8, become: 6, crash: 2, crashIn: 1, restart: 1, forget: 1, flushAll: 1, squeeze: 2, foreign: 2,
}

// step is one line of a script. The fields that its action does not use are zero.
type step struct {
	action   action
	id       journal.ID
	value    string
	fault    fault
	page     int // of a gateway's or a refusal
	duration time.Duration
	free     int64 // on the disk
	percent  int   // of the unsynced data that survives a crash
	sync     int   // which sync of the write crashes
	seed     int64
}

func (s step) String() string {
	switch s.action {
	case put, foreign:
		return fmt.Sprintf("%s %s %s", s.action, s.id, s.value)
	case remove, get, insist:
		return fmt.Sprintf("%s %s", s.action, s.id)
	case list:
		return "list " + s.id.Namespace
	case wait, flushAll, setBack, restart:
		return fmt.Sprintf("%s %s", s.action, s.duration)
	case become:
		return fmt.Sprintf("become %s (%s, page %d) %s", s.fault, s.duration, s.page, s.id.Namespace)
	case squeeze:
		return fmt.Sprintf("squeeze to %d", s.free)
	case crash:
		return fmt.Sprintf("crash keep=%d%% seed=%d", s.percent, s.seed)
	case crashIn:
		return fmt.Sprintf("crashIn put %s %s at sync %d keep=%d%% seed=%d", s.id, s.value, s.sync, s.percent, s.seed)
	}
	return s.action.String()
}

// script is the whole plan of a seed, short enough to read.
type script struct {
	quota  quota.Limit // of each namespace
	lists  bool        // namespaces in use are listed in the background
	sealed bool        // all namespaces
	odd    []wire.Item // rows of upstream's lists that BotWire cannot have
	steps  []step
}

func (s script) String() string {
	var b strings.Builder
	if s.quota.Writes > 0 {
		fmt.Fprintf(&b, "  quota of %d in %s, max_age %s\n", s.quota.Writes, s.quota.Period, s.quota.MaxAge)
	}
	fmt.Fprintf(&b, "  lists in the background: %t, sealed: %t, odd rows: %v\n", s.lists, s.sealed, s.odd)
	for _, line := range s.steps {
		fmt.Fprintln(&b, "  "+line.String())
	}
	return b.String()
}

// namespaces have a word in their names that upstream must not see if they are sealed. So have the keys and values.
var namespaces = []string{"canary-a", "canary-b"}

// entries are few, so that steps meet.
var entries = []journal.ID{
	{Namespace: namespaces[0], Key: "canary-x"}, {Namespace: namespaces[0], Key: "canary-y"},
	{Namespace: namespaces[1], Key: "canary-x"}, {Namespace: namespaces[1], Key: ".."},
}

// drawSealed draws whether all namespaces are sealed.
func drawSealed(t *rapid.T) bool {
	return rapid.SampledFrom([]bool{false, false, true}).Draw(t, "sealed")
}

// drawOdd draws rows that upstream's lists have besides the entries'.
func drawOdd(t *rapid.T) []wire.Item {
	return rapid.SampledFrom([][]wire.Item{
		nil, nil, {{Key: "odd\x01", Bytes: 1, UpdatedAt: 1}}, {{Key: "odd/key", Bytes: 1, UpdatedAt: 1}},
		{{Key: "odd", Bytes: 1 << 32, UpdatedAt: 1}}, {{Key: "odd", Bytes: -1, UpdatedAt: 1}}, {{Key: "odd", Bytes: 1, UpdatedAt: 1e300}},
	}).Draw(t, "odd rows")
}

// scripts draws a script. A value names the step that wrote it.
func scripts() *rapid.Generator[script] {
	var deck []action
	for a, n := range weights {
		for range n {
			deck = append(deck, action(a))
		}
	}
	return rapid.Custom(func(t *rapid.T) script {
		s := script{quota: drawQuota(t), lists: rapid.Bool().Draw(t, "lists"), sealed: drawSealed(t), odd: drawOdd(t), steps: make([]step, rapid.IntRange(1, 60).Draw(t, "steps"))}
		change := rapid.SampledFrom([]func(i int, s *step){amongHosts, alone, busy}).Draw(t, "kind")
		for i := range s.steps {
			s.steps[i] = drawStep(t, deck, i)
			change(i, &s.steps[i])
		}
		return s
	})
}

func amongHosts(int, *step) {}

// alone has no other host, and upstream's clock set back instead.
func alone(_ int, s *step) {
	if s.action == foreign {
		*s = step{action: setBack, duration: time.Hour}
	}
}

// busy has one host write one entry time and again, in front of an upstream that loses connections and nothing
// else: many writes are made while an earlier one may still land.
func busy(i int, s *step) {
	switch {
	case i == 0, s.action == become:
		*s = step{action: become, fault: flaky, duration: time.Duration(i%29) * time.Second, page: 1 + i%14} // neither all writes nor none
	case s.action == wait:
		s.duration = min(s.duration+60*time.Millisecond, 300*time.Millisecond)
	case s.action != remove && s.action != crash && s.action != restart && s.action != flushAll && s.action != crashIn:
		s.action, s.value = put, fmt.Sprintf("canary-%d", i)
	}
	if s.action != become {
		s.id = entries[0]
	}
}

func drawStep(t *rapid.T, deck []action, i int) step {
	s := step{action: rapid.SampledFrom(deck).Draw(t, "action")}
	switch s.action {
	case put, remove, get, insist, list, crashIn, foreign:
		s.id = rapid.SampledFrom(entries).Draw(t, "entry")
		s.value = fmt.Sprintf("canary-%d", i)
	case wait:
		s.duration = rapid.SampledFrom([]time.Duration{
			0, time.Millisecond, 60 * time.Millisecond, linger, time.Second, 5 * time.Second, 11 * time.Second, 40 * time.Second, 5 * time.Minute,
		}).Draw(t, "for")
	case become:
		s.fault = fault(rapid.IntRange(0, int(faults)-1).Draw(t, "fault"))
		s.duration = time.Duration(rapid.IntRange(0, 29_000).Draw(t, "late")) * time.Millisecond
		s.page = rapid.IntRange(0, len(gatewayPages)-1).Draw(t, "page")
		if s.fault != down { // the network is the same for all
			s.id.Namespace = rapid.SampledFrom([]string{"", "", namespaces[0], namespaces[1]}).Draw(t, "of")
		}
	case flushAll:
		s.duration = 2 * time.Second
	case restart:
		s.duration = rapid.SampledFrom([]time.Duration{0, time.Second, 8 * time.Second}).Draw(t, "flushes for")
	case squeeze:
		s.free = rapid.SampledFrom([]int64{roomy, diskReserve - 1, 1}).Draw(t, "free")
	}
	if s.action == crash || s.action == crashIn {
		s.percent = rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "kept")
		s.sync = rapid.IntRange(1, 3).Draw(t, "sync")
		s.seed = rapid.Int64().Draw(t, "seed")
	}
	return s
}
