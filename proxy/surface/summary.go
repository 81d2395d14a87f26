package surface

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/internal/words"
)

var urgency = map[api.Level]int{api.LevelOK: 0, api.LevelNotice: 1, api.LevelWarning: 2, api.LevelCritical: 3}

type facts struct {
	now       time.Time
	status    *api.Status // without its summary, with all namespaces
	failed    bool        // the journal has failed
	stops     bool        // the daemon is stopping
	openSince time.Time   // when the oldest open dead letter was refused; zero if there is none
}

// summarize returns all findings about the daemon, the most urgent first. Among findings of one level,
// those that cost data or that only a person can end come first, then those that delay the most writes.
func summarize(f *facts) api.Summary {
	all := []api.Finding{}
	for _, look := range []func() *api.Finding{
		f.journalFailed, f.writesRefused, // callers are refused
		// somebody has to decide or wait
		f.lost, f.about(isLost, f.dataLoss),
		f.upstreamIs("down", api.LevelWarning, "; if this lasts, look at the network and at upstream.url (botwired doctor)"),
		f.about(isPaused, f.paused), f.deadLetters,
		f.about((*api.NamespaceStatus).IsFull, f.full), f.about(refusesReads, f.readsRefused), f.about(isNotOpened, f.notOpened), f.about(hasNoQuotaLeft, f.usedUp),
		f.stopping, f.rebuilding, f.upstreamIs("degraded", api.LevelNotice, ""), f.unwatched, f.about(isRestoring, f.restoring),
		f.about(waitsFor("throttled"), f.throttled), f.about(waitsFor("failed"), f.failing), f.about(isSpread, f.spread),
		f.about(isAlmostFull, f.nearlyFull), f.doubted, f.damaged,
	} {
		if one := look(); one != nil {
			all = append(all, *one)
		}
	}
	if len(all) == 0 {
		all = append(all, f.safe())
	}
	slices.SortStableFunc(all, func(a, b api.Finding) int { return cmp.Compare(urgency[b.Level], urgency[a.Level]) })
	return api.Summary{Finding: all[0], Also: all[1:]}
}

func say(l api.Level, since time.Time, remedy, format string, args ...any) *api.Finding {
	f := &api.Finding{Level: l, Since: stamp(since), Text: fmt.Sprintf(format, args...)}
	if remedy != "" {
		f.Remedy = &remedy
	}
	return f
}

func (f *facts) journalFailed() *api.Finding {
	if !f.failed {
		return nil
	}
	return say(api.LevelCritical, time.Time{}, "check the disk before botwired is started again: the journal up to the last acknowledged write is sound",
		"The disk failed: botwired takes no more writes, and ends")
}

func (f *facts) writesRefused() *api.Finding {
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
		remedy = "free some room on the disk that holds " + f.status.DataDir + ", or raise its user's quota"
	}
	return say(api.LevelCritical, since, remedy, "Writes are refused: %s", strings.TrimSuffix(j.Reason, ".")) // guard 3.35
}

func (f *facts) upstreamIs(state string, level api.Level, remedy string) func() *api.Finding {
	return func() *api.Finding {
		up := &f.status.Upstream
		if up.State != state {
			return nil
		}
		if up.Watch != nil && up.Watch.Refused != "" {
			return say(api.LevelCritical, up.Since, "botwired doctor looks at the servers and the bucket; botwired tries again by itself",
				"botwired has no bucket that it can use: %s", up.Reason)
		}
		found := say(level, up.Since, up.Reason+"; botwired tries again by itself"+remedy, "%s is %s: nothing is lost", service(up.URL), state)
		found.Detail = "no write waits"
		if n := f.status.Pending; n > 0 {
			found.Detail = fmt.Sprintf("%s here, the oldest for %s", waits(n), ago(f.status.OldestPendingSeconds))
		}
		return found
	}
}

// service returns the name of an upstream's service.
func service(url string) string {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "nats", "tls":
		return "NATS"
	case "embedded":
		return "The embedded upstream"
	}
	return "BotWire"
}

func waits(n int) string {
	if n == 1 {
		return "1 write waits"
	}
	return words.Count(n, "write") + " wait"
}

func ago(seconds float64) string {
	return words.Duration(time.Duration(seconds * float64(time.Second)))
}

func (f *facts) deadLetters() *api.Finding {
	n := f.status.OpenDeadLetters
	if n == 0 {
		return nil
	}
	verb := "wait"
	if n == 1 {
		verb = "waits"
	}
	return say(api.LevelWarning, f.openSince, "botwired dead-letters says why: retry or delete each of them",
		"Upstream has refused %s for good, which %s for your decision", words.Count(n, "write"), verb)
}

func (f *facts) damaged() *api.Finding {
	n := f.status.DamagedCopies + f.status.DamagedTables
	if n == 0 {
		return nil
	}
	return say(api.LevelNotice, f.status.StartedAt, "check the disk: it has changed what it held",
		"The disk has damaged %s since the start: botwired asks upstream for them again, and no acknowledged write is lost", plainly(n))
}

func plainly(n int64) string {
	if n == 1 {
		return "1 copy or table"
	}
	return words.Number(n) + " copies or tables"
}

// doubtShown is how long the summary has a doubt: by then, older answers are replaced or show their
// age.
const doubtShown = 10 * time.Minute

func (f *facts) doubted() *api.Finding {
	d := f.status.Identity.Newest
	if d == nil || f.now.Sub(d.At) >= doubtShown {
		return nil
	}
	remedy := ""
	if d.Reason == string(identity.Copied) || d.Reason == string(identity.Restored) {
		remedy = "if the other copy of the data directory runs too, give it a directory of its own"
	}
	return say(api.LevelNotice, d.At, remedy,
		"botwired takes what it knew for old (%s): it compares what is pending with upstream before it sends it", d.Detail)
}

func (f *facts) stopping() *api.Finding {
	if !f.stops {
		return nil
	}
	if f.status.Pending == 0 {
		return say(api.LevelNotice, time.Time{}, "", "botwired is stopping: upstream has every write")
	}
	return say(api.LevelNotice, time.Time{}, "", "botwired is stopping: of %s it sends what it can now, and keeps the others for the next start",
		words.Count(f.status.Pending, "write"))
}

func (f *facts) rebuilding() *api.Finding {
	if !f.status.Rebuilding {
		return nil
	}
	return say(api.LevelNotice, f.status.StartedAt, "", "botwired is still reading its journal: it has found %s so far that upstream does not have",
		words.Count(f.status.Pending, "write"))
}

func (f *facts) safe() api.Finding {
	n := f.status.Pending
	if n == 0 {
		return *say(api.LevelOK, time.Time{}, "", "Everything is safe: upstream has every write")
	}
	return *say(api.LevelOK, time.Time{}, "", "Everything is safe: %s on %s way, the oldest %s",
		words.Count(n, "write"), map[bool]string{true: "its", false: "their"}[n == 1], ago(f.status.OldestPendingSeconds))
}
