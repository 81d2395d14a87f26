//go:build sweep

package journal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// account is a journal's state of an entry or, with an empty key, of a listing.
type account struct {
	op     journal.Op // of the pending write; 0 if there is none
	value  string     // of the pending write
	copied bool       // there is a settled copy
	copy   string
	dead   uint64 // the entry's dead letter; 0 if there is none
	lost   uint64 // the entry's write that another host's has beaten; 0 if there is none
	theirs string // another host's state that is kept as lost
	left   string // what requests may have left upstream
	row    string // of the settled listing
}

// seen is the part of an account that a journal shows: a pending write hides the copy.
func (a account) seen() account {
	if a.op != 0 {
		a.copied, a.copy = false, ""
	}
	return a
}

// shows reports whether an observed account is this one.
func (a account) shows(got account) bool {
	return a.seen() == got
}

// accounts holds the state of a whole journal. A missing entry means the zero account.
type accounts map[journal.ID]account

// ledger holds the knowledge of a journal's callers: the acknowledged changes, and those in flight,
// each of which may be there completely or not at all.
type ledger struct {
	mu         sync.Mutex
	acked      accounts
	flight     map[int]accounts // the result of each call in flight
	calls      int              // calls begun and ended, to distinguish two moments
	last       uint64           // the highest acknowledged sequence number
	shown      []uint64         // the numbers of versions that are no writes, and may have been removed
	fatal      []error
	said       chan struct{} // closed at the first call of Fatal
	violations []string
}

func newLedger() *ledger {
	return &ledger{acked: make(accounts), flight: make(map[int]accounts), said: make(chan struct{})}
}

// now returns a copy of the ledger, and the moment.
func (l *ledger) now() (*ledger, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ledger{acked: maps.Clone(l.acked), flight: maps.Clone(l.flight), last: l.last, shown: slices.Clone(l.shown)}, l.calls
}

func (l *ledger) of(id journal.ID) account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[id]
}

// ended records the call of Fatal and stops its caller for good: a process that has ended does not
// continue, regardless of the locks it held.
func (l *ledger) ended(err error) {
	l.mu.Lock()
	if l.fatal = append(l.fatal, err); len(l.fatal) == 1 {
		close(l.said)
	}
	l.mu.Unlock()
	select {}
}

func (l *ledger) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.fatal) > 0
}

// do makes one call that results in the accounts if it is acknowledged. A call that is refused while
// the process lives changes nothing (contract 2, 3).
func (l *ledger) do(after accounts, call func() error) error {
	l.mu.Lock()
	late := len(l.fatal) > 0
	l.calls++
	me := l.calls
	if !late {
		l.flight[me] = after
	}
	l.mu.Unlock()
	err := call()
	if errors.Is(err, journal.ErrFailed) {
		<-l.said
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	switch {
	case late && err == nil && !l.acked.holds(after): // noting an unchanged answer is not a write
		l.violations = append(l.violations, fmt.Sprintf("acknowledged after Fatal: %v", after.names()))
	case late, err != nil && len(l.fatal) > 0:
		// It may be there or not: the process was ended during it.
	case err == nil:
		maps.Copy(l.acked, after)
		delete(l.flight, me)
	default:
		delete(l.flight, me)
	}
	return err
}

func (a accounts) names() (names []string) {
	for id := range a {
		names = append(names, id.String())
	}
	return names
}

// opensWith opens the journal of a file system, compares it with the ledger, and then writes to it.
// This changes the file system.
func (l *ledger) opensWith(fs vfs.FS) (err error) {
	var said error
	j, err := journal.Open(journal.WithoutPause(journal.Options{Dir: dir, FS: fs, Fatal: func(err error) { said = err }}))
	if err != nil {
		return fmt.Errorf("does not open: %w", err)
	}
	defer func() { err = errors.Join(err, j.Close(), said) }()
	if err := errors.Join(j.Run(context.Background()), j.Check(), j.CheckReceipts(l.shown...)); err != nil {
		return fmt.Errorf("does not verify: %w", err)
	}
	got, err := observe(j, l.ids())
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if err := l.compare(got); err != nil {
		return err
	}
	w, err := j.Append(journal.NewWrite{ID: key("again"), Op: journal.Put, Value: "1"})
	if err != nil {
		return fmt.Errorf("does not take a write: %w", err)
	}
	if w.Seq <= l.last {
		return fmt.Errorf("write %d comes after %d", w.Seq, l.last)
	}
	return nil
}

// ids returns the known entries and listings.
func (l *ledger) ids() accounts {
	ids := maps.Clone(l.acked)
	for _, after := range l.flight {
		maps.Copy(ids, after)
	}
	return ids
}

// compare checks the observed accounts against the ledger.
func (l *ledger) compare(got accounts) error {
	free := make(accounts)
	for _, after := range l.flight {
		maps.Copy(free, after)
		if !got.holds(after) && !got.holds(l.acked.pick(after)) {
			return fmt.Errorf("half of a call is there: %v", got.describe(after))
		}
	}
	for id := range got {
		if _, ok := free[id]; !ok && !l.acked[id].shows(got[id]) {
			return fmt.Errorf("%s is %s, acknowledged was %s", id, got[id], l.acked[id].seen())
		}
	}
	return nil
}

// pick returns the accounts of the entries in those.
func (a accounts) pick(those accounts) accounts {
	out := make(accounts, len(those))
	for id := range those {
		out[id] = a[id]
	}
	return out
}

func (a accounts) holds(want accounts) bool {
	for id := range want {
		if !want[id].shows(a[id]) {
			return false
		}
	}
	return true
}

func (a accounts) describe(those accounts) (lines []string) {
	for id := range those {
		lines = append(lines, fmt.Sprintf("%s is %s and would be %s", id, a[id], those[id].seen()))
	}
	return lines
}

func (a account) String() string {
	return fmt.Sprintf("{%s %s, copy %v %s, dead %d, lost %d, theirs %q, left %s, row %q}",
		a.op, short(a.value), a.copied, short(a.copy), a.dead, a.lost, a.theirs, a.left, a.row)
}

func short(s string) string {
	if len(s) > 20 {
		return fmt.Sprintf("%q and %d bytes", s[:20], len(s)-20)
	}
	return fmt.Sprintf("%q", s)
}

// observe reads everything that a journal shows.
func observe(j *journal.Journal, ids accounts) (accounts, error) {
	got := make(accounts)
	for id := range ids {
		state, err := j.Lookup(id)
		if err != nil {
			return nil, err
		}
		got[id] = accountOf(state)
	}
	for _, p := range j.PendingList("", 1<<20) {
		if _, ok := ids[p.ID]; !ok {
			return nil, fmt.Errorf("%s is pending, and nobody wrote it", p.ID)
		}
	}
	letters, err := j.DeadLetters(0, 1000)
	if err != nil {
		return nil, err
	}
	for _, d := range letters {
		a := got[d.ID]
		if a.dead != 0 {
			return nil, fmt.Errorf("%s has the dead letters %d and %d", d.ID, a.dead, d.Seq)
		}
		a.dead = d.Seq
		got[d.ID] = a
	}
	lost, err := j.History.Lost("", 0, 1000)
	if err != nil {
		return nil, err
	}
	for _, p := range lost {
		a := got[p.ID]
		if p.Apart {
			a.theirs = "earlier"
		} else if a.lost != 0 {
			return nil, fmt.Errorf("%s has lost the writes %d and %d", p.ID, p.Seq, a.lost)
		} else {
			a.lost = p.Seq
		}
		got[p.ID] = a
	}
	for id := range ids {
		left, _, err := j.Left(journal.Write{ID: id})
		if err != nil {
			return nil, err
		}
		if len(left) > 0 {
			a := got[id]
			for _, c := range left {
				a.left = withLeft(a.left, fmt.Sprintf("%x", c))
			}
			got[id] = a
		}
	}
	l, ok, err := j.Listing(listedSpace, allRows)
	if err != nil || !ok {
		return got, err
	}
	got[journal.ID{Namespace: listedSpace}] = account{row: fmt.Sprint(l.Complete)}
	for _, r := range l.Rows {
		id := journal.ID{Namespace: listedSpace, Key: r.Key}
		a := got[id]
		a.row = fmt.Sprint(r.ListBytes)
		got[id] = a
	}
	return got, nil
}

func accountOf(s journal.State) account {
	switch s.Kind {
	case journal.Value:
		return account{op: journal.Put, value: s.Value}
	case journal.Gone:
		return account{op: journal.Delete}
	case journal.Settled:
		return account{copied: true, copy: s.Value}
	}
	return account{}
}
