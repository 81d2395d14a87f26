//go:build sweep

package journal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// account is what a journal holds of an entry or, with an empty key, of a listing.
type account struct {
	op     journal.Op // of the pending write, 0 if there is none
	value  string     // likewise
	copied bool       // there is a settled copy
	copy   string
	dead   uint64 // the entry's dead letter, 0 if it has none
	theirs string // another host's state that is kept as a dead letter
	sent   bool
	unsure bool   // the sent mark was taken back, which need not survive
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
	if a.unsure {
		got.sent, got.unsure = a.sent, true
	}
	return a.seen() == got
}

// accounts are those of a whole journal; what is not there is the zero account.
type accounts map[journal.ID]account

// ledger is what the callers of a journal know: what was acknowledged, and what is
// under way and may or may not be there, each as a whole.
type ledger struct {
	mu         sync.Mutex
	acked      accounts
	flight     map[int]accounts // what each call under way leaves behind
	calls      int              // begun and ended, to tell two moments apart
	last       uint64           // highest sequence number acknowledged
	fatal      []error
	said       chan struct{} // closed at the first call of Fatal
	violations []string
}

func newLedger() *ledger {
	return &ledger{acked: make(accounts), flight: make(map[int]accounts), said: make(chan struct{})}
}

// now is a copy of what is known, and the moment.
func (l *ledger) now() (*ledger, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ledger{acked: maps.Clone(l.acked), flight: maps.Clone(l.flight), last: l.last}, l.calls
}

func (l *ledger) violation(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

func (l *ledger) of(id journal.ID) account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[id]
}

// ended records the call of Fatal and takes its caller out of the world for good: a
// process that has ended runs no further, whatever locks it held.
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

// do makes one call that, if it is acknowledged, leaves the accounts behind. A call that is
// refused while the process lives leaves nothing (contract 2, 3).
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
	case late && err == nil && !l.acked.holds(after): // to learn nothing new is no write
		l.violations = append(l.violations, fmt.Sprintf("acknowledged after Fatal: %v", after.names()))
	case late, err != nil && len(l.fatal) > 0:
		// It may be there or not: the process was ended amid it.
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

// opensWith opens the journal of a file system and compares it with what is known; it
// then writes to it. The file system is changed.
func (l *ledger) opensWith(fs vfs.FS) (err error) {
	var said error
	j, err := journal.Open(journal.WithoutPause(journal.Options{Dir: dir, FS: fs, Fatal: func(err error) { said = err }}))
	if err != nil {
		return fmt.Errorf("does not open: %w", err)
	}
	defer func() { err = errors.Join(err, j.Close(), said) }()
	if err := errors.Join(j.Run(context.Background()), j.Check(), j.CheckReceipts()); err != nil {
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

// ids are the entries and listings of which anything is known.
func (l *ledger) ids() accounts {
	ids := maps.Clone(l.acked)
	for _, after := range l.flight {
		maps.Copy(ids, after)
	}
	return ids
}

// compare holds what was observed against what is known.
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

// pick are the accounts of the entries that are in those.
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
	return fmt.Sprintf("{%s %s, copy %v %s, dead %d, theirs %q, sent %v, row %q}",
		a.op, short(a.value), a.copied, short(a.copy), a.dead, a.theirs, a.sent, a.row)
}

func short(s string) string {
	if len(s) > 20 {
		return fmt.Sprintf("%q and %d bytes", s[:20], len(s)-20)
	}
	return fmt.Sprintf("%q", s)
}

// observe reads all that a journal shows.
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
		if d.Theirs {
			a.theirs = d.Error
			got[d.ID] = a
			continue
		}
		if a.dead != 0 {
			return nil, fmt.Errorf("%s has the dead letters %d and %d", d.ID, a.dead, d.Seq)
		}
		a.dead = d.Seq
		got[d.ID] = a
	}
	doubts, err := j.InDoubt()
	if err != nil {
		return nil, err
	}
	for _, doubt := range doubts {
		id := doubt.ID
		a := got[id]
		a.sent = true
		got[id] = a
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
