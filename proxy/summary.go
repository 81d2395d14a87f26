package proxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/internal/words"
)

// level says how urgent a finding is.
type level string

// The levels. At Critical, callers' writes are refused. At Warning, something is wrong that does
// not end by itself, or upstream is gone: acknowledged writes are safe. Of a Notice, nobody has to
// do anything. OK is that all is well.
const (
	levelOK       level = "ok"
	levelNotice   level = "notice"
	levelWarning  level = "warning"
	levelCritical level = "critical"
)

// urgency orders the levels.
var urgency = map[level]int{levelOK: 0, levelNotice: 1, levelWarning: 2, levelCritical: 3}

// finding is one thing that a person should know, in one sentence.
type finding struct {
	Level  level      `json:"level"`
	Text   string     `json:"text"`   // without a full stop
	Since  *time.Time `json:"since"`  // null if that is not known, or if all is well
	Remedy *string    `json:"remedy"` // what to do; null if there is nothing to do
}

// summaryDocument is the worst finding, and the others.
type summaryDocument struct {
	finding
	Also []finding `json:"also"` // what else there is, the worst first
}

// facts are what the summary is made of.
type facts struct {
	now       time.Time
	status    *statusDocument // all but its summary, with all namespaces
	failed    bool            // the journal has failed
	stops     bool            // the daemon is about to end
	openSince time.Time       // when the oldest open dead letter was refused; zero if there is none
}

// summarize says in one sentence how the daemon does. Among findings of one level, those come
// first that cost data or that only a person can end, then those that delay the most writes.
func summarize(f *facts) summaryDocument {
	all := []finding{}
	for _, look := range []func() *finding{
		f.journalFailed, f.writesRefused, // callers are refused
		f.lost, f.suspect, f.upstreamDown, f.paused, f.deadLetters, f.full, f.readsRefused, f.foreign, f.usedUp, // somebody has to decide or wait
		f.stopping, f.rebuilding, f.upstreamDegraded, f.unwatched, f.restoring, f.throttled, f.failing, f.spread, f.nearlyFull, f.doubted, f.damaged,
	} {
		if one := look(); one != nil {
			all = append(all, *one)
		}
	}
	if len(all) == 0 {
		all = append(all, f.safe())
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(urgency[b.Level], urgency[a.Level]) })
	return summaryDocument{finding: all[0], Also: all[1:]}
}

func say(l level, since time.Time, remedy, format string, args ...any) *finding {
	f := &finding{Level: l, Text: fmt.Sprintf(format, args...)}
	if !since.IsZero() {
		since = since.UTC().Round(time.Millisecond)
		f.Since = &since
	}
	if remedy != "" {
		f.Remedy = &remedy
	}
	return f
}

func (f *facts) journalFailed() *finding {
	if !f.failed {
		return nil
	}
	return say(levelCritical, time.Time{}, "check the disk before botwired is started again: the journal up to the last acknowledged write is sound",
		"The disk failed: botwired takes no more writes, and ends")
}

func (f *facts) writesRefused() *finding {
	j := &f.status.Journal
	if !j.RefusesWrites || f.failed {
		return nil
	}
	since := time.Time{}
	if j.Since != nil {
		since = *j.Since
	}
	remedy := "have upstream catch up, decide on dead letters, or raise journal.max_bytes"
	if strings.Contains(j.Reason, "journal.disk_reserve") {
		remedy = "free some room on the disk that holds " + f.status.DataDir
	}
	return say(levelCritical, since, remedy, "Writes are refused: %s", strings.TrimSuffix(j.Reason, ".")) // guard 3.35
}

func (f *facts) upstreamDown() *finding {
	up := &f.status.Upstream
	if up.State != "down" {
		return nil
	}
	return say(levelWarning, up.Since, "botwired tries again by itself; if this lasts, look at the network and at upstream.url (botwired doctor)",
		"Upstream is down (%s): nothing is lost, %s", up.Reason, f.backlog("no write waits"))
}

func (f *facts) upstreamDegraded() *finding {
	up := &f.status.Upstream
	if up.State != "degraded" {
		return nil
	}
	return say(levelNotice, up.Since, "botwired tries again by itself",
		"Upstream is degraded (%s): nothing is lost, %s", up.Reason, f.backlog("no write waits"))
}

// backlog says what waits.
func (f *facts) backlog(none string) string {
	n := f.status.Pending
	if n == 0 {
		return none
	}
	return fmt.Sprintf("%s here, the oldest for %s", waits(n), ago(f.status.OldestPendingSeconds))
}

// waits says how many writes wait.
func waits(n int) string {
	if n == 1 {
		return "1 write waits"
	}
	return words.Count(n, "write") + " wait"
}

func ago(seconds float64) string {
	return words.Duration(time.Duration(seconds * float64(time.Second)))
}

func (f *facts) deadLetters() *finding {
	n := f.status.OpenDeadLetters
	if n == 0 {
		return nil
	}
	verb := "wait"
	if n == 1 {
		verb = "waits"
	}
	return say(levelWarning, f.openSince, "botwired dead-letters says why: retry or delete each of them",
		"Upstream has refused %s for good, which %s for your decision", words.Count(n, "write"), verb)
}

func (f *facts) damaged() *finding {
	n := f.status.DamagedCopies + f.status.DamagedTables
	if n == 0 {
		return nil
	}
	return say(levelNotice, f.status.StartedAt, "check the disk: it has changed what it held",
		"The disk has damaged %s since the start: botwired asks upstream for them again, and no acknowledged write is lost", plainly(n))
}

func plainly(n int64) string {
	if n == 1 {
		return "1 copy or table"
	}
	return words.Number(n) + " copies or tables"
}

// doubtShown is how long the summary tells of a doubt: by then, what was read before it has been
// asked for again, or is marked with its age.
const doubtShown = 10 * time.Minute

func (f *facts) doubted() *finding {
	d := f.status.Identity.Newest
	if d == nil || f.now.Sub(d.At) >= doubtShown {
		return nil
	}
	remedy := ""
	if d.Reason == string(identity.Copied) || d.Reason == string(identity.Restored) {
		remedy = "if the other copy of the data directory runs too, give it a directory of its own"
	}
	return say(levelNotice, d.At, remedy,
		"botwired takes what it knew for old (%s): it compares what is pending with upstream before it sends it", d.Detail)
}

func (f *facts) stopping() *finding {
	if !f.stops {
		return nil
	}
	if f.status.Pending == 0 {
		return say(levelNotice, time.Time{}, "", "botwired is stopping: upstream has every write")
	}
	return say(levelNotice, time.Time{}, "", "botwired is stopping: of %s it sends what it can now, and keeps the others for the next start",
		words.Count(f.status.Pending, "write"))
}

func (f *facts) rebuilding() *finding {
	if !f.status.Rebuilding {
		return nil
	}
	return say(levelNotice, f.status.StartedAt, "", "botwired is still reading its journal: it has found %s so far that upstream does not have",
		words.Count(f.status.Pending, "write"))
}

func (f *facts) safe() finding {
	n := f.status.Pending
	if n == 0 {
		return *say(levelOK, time.Time{}, "", "Everything is safe: upstream has every write")
	}
	return *say(levelOK, time.Time{}, "", "Everything is safe: %s on %s way, the oldest %s",
		words.Count(n, "write"), map[bool]string{true: "its", false: "their"}[n == 1], ago(f.status.OldestPendingSeconds))
}
