package surface

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
)

var urgency = map[api.Level]int{api.LevelOK: 0, api.LevelNotice: 1, api.LevelWarning: 2, api.LevelCritical: 3}

type facts struct {
	now       time.Time
	status    *api.Status    // without its summary, with all namespaces
	failed    bool           // the journal has failed
	openIn    map[string]int // the open dead letters by namespace
	openSince time.Time      // when the oldest open dead letter was refused; zero if there is none
	// largest returns the largest entries of a namespace; nil: they are not wanted.
	largest func(namespace string) []journal.Known
}

// summarize returns all findings about the daemon, the most urgent first. Among findings of one level,
// those that cost data or that only a person can end come first, then those that delay the most writes.
func summarize(f *facts) api.Summary {
	all := []api.Finding{}
	for _, look := range []func() *api.Finding{
		f.journalFailed, f.writesRefused, // callers are refused
		// somebody has to decide or wait
		f.lost, f.about(isLost, f.dataLoss),
		f.upstreamIs("down", "; if this lasts, look at the network and at upstream.url (botwired doctor)"),
		f.about(isPaused, f.paused), f.deadLetters,
		f.about((*api.NamespaceStatus).IsFull, f.full), f.about(refusesReads, f.readsRefused), f.about(isNotOpened, f.notOpened), f.about(hasNoQuotaLeft, f.usedUp),
		f.stopping, f.rebuilding, f.upstreamIs("degraded", ""), f.unwatched,
		f.about(isThrottled, f.throttled), f.about(waitsFor("failed"), f.failing), f.about(isSpread, f.spread),
		f.about(isAlmostFull, f.nearlyFull), f.damaged,
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

func say(kind api.Kind, since time.Time, remedy, format string, args ...any) *api.Finding {
	f := &api.Finding{Kind: kind, Level: api.Kinds()[kind], Since: stamp(since), Text: fmt.Sprintf(format, args...)}
	if remedy != "" {
		f.Remedy = &remedy
	}
	return f
}

func (f *facts) journalFailed() *api.Finding {
	if !f.failed {
		return nil
	}
	return say("disk_failed", time.Time{}, "check the disk before botwired is started again: the journal up to the last acknowledged write is sound",
		"The disk failed: botwired takes no more writes, and ends")
}

func (f *facts) writesRefused() *api.Finding {
	j := &f.status.Journal
	if !j.RefusesWrites || f.failed {
		return nil
	}
	remedy := "have upstream catch up, decide on dead letters, or raise journal.max_bytes"
	if strings.Contains(j.Reason, "journal.disk_reserve") {
		remedy = "free some room on the disk that holds " + f.status.DataDir + ", or raise its user's quota"
	}
	found := say("writes_refused", time.Time{}, remedy, "Writes are refused: %s", strings.TrimSuffix(j.Reason, ".")) // guard 3.35
	found.Since = j.Since
	return found
}

func (f *facts) upstreamIs(state, remedy string) func() *api.Finding {
	return func() *api.Finding {
		up := &f.status.Upstream
		if up.State != state {
			return nil
		}
		if up.Watch != nil && up.Watch.Refused != "" {
			return say("no_bucket", up.Since, "botwired doctor looks at the servers and the bucket; botwired tries again by itself",
				"botwired has no bucket that it can use: %s", up.Reason).Offering("botwired doctor")
		}
		found := say(api.Kind("upstream_"+state), up.Since, up.Reason+"; botwired tries again by itself"+remedy, "Upstream is %s: nothing is lost", state)
		if strings.Contains(remedy, "botwired doctor") {
			found.Offering("botwired doctor")
		}
		found.Detail = "no write waits"
		if n := f.status.Pending; n > 0 {
			found.Detail = fmt.Sprintf("%s here, the oldest for %s", waits(n), ago(f.status.OldestPendingSeconds))
		}
		return found
	}
}

func waits(n int) string { return words.Count(n, "write") + words.ByNumber(n, " waits", " wait") }

func ago(seconds float64) string {
	return words.Duration(time.Duration(seconds * float64(time.Second)))
}

func (f *facts) deadLetters() *api.Finding {
	n := f.status.OpenDeadLetters
	if n == 0 {
		return nil
	}
	return say("dead_letters", f.openSince, "see why, then retry or delete each of them",
		"Upstream has refused %s for good, which %s for your decision", words.Count(n, "write"), words.ByNumber(n, "waits", "wait"))
}

func (f *facts) damaged() *api.Finding {
	n := f.status.DamagedFiles
	if n == 0 {
		return nil
	}
	return say("disk_damaged", f.status.StartedAt, "restart botwired to mend it, and check the disk: it has changed what it held",
		"The disk has damaged %s of the journal: what cannot be read of the copies, the receipts and the history counts as missing, and upstream is asked instead",
		words.Count(n, "file"))
}

func (f *facts) stopping() *api.Finding {
	if !f.status.Stopping {
		return nil
	}
	if f.status.Pending == 0 {
		return say("stopping", time.Time{}, "", "botwired is stopping: no write waits")
	}
	return say("stopping", time.Time{}, "", "botwired is stopping: of %s it sends what it can now, and keeps the others for the next start",
		words.Count(f.status.Pending, "write"))
}

func (f *facts) rebuilding() *api.Finding {
	if !f.status.Rebuilding {
		return nil
	}
	return say("rebuilding", f.status.StartedAt, "", "botwired is still reading its journal: it has found %s so far that upstream does not have",
		words.Count(f.status.Pending, "write"))
}

func (f *facts) safe() api.Finding {
	n := f.status.Pending
	if n == 0 {
		return *say("safe", time.Time{}, "", "Everything is safe: no write waits")
	}
	return *say("safe", time.Time{}, "", "Everything is safe: %s on %s way, the oldest %s",
		words.Count(n, "write"), words.ByNumber(n, "its", "their"), ago(f.status.OldestPendingSeconds))
}

type group struct {
	first   *api.NamespaceStatus // the namespace with the most pending writes
	count   int
	pending int
	oldest  float64 // seconds
}

func (f *facts) about(fit func(*api.NamespaceStatus) bool, tell func(*group) *api.Finding) func() *api.Finding {
	return func() *api.Finding {
		var g group
		for i := range f.status.Namespaces {
			n := &f.status.Namespaces[i]
			if !fit(n) {
				continue
			}
			if g.count++; g.first == nil || n.Pending > g.first.Pending {
				g.first = n
			}
			g.pending += n.Pending
			if n.Pending > 0 {
				g.oldest = max(g.oldest, n.OldestPendingSeconds)
			}
		}
		if g.count == 0 {
			return nil
		}
		return tell(&g)
	}
}

func (g *group) name() string {
	if g.count == 1 {
		return g.first.Namespace
	}
	return fmt.Sprintf("%s (such as %s)", words.Count(g.count, "namespace"), g.first.Namespace)
}

func (g *group) waiting() string {
	return fmt.Sprintf("%s, the oldest for %s", waits(g.pending), ago(g.oldest))
}

func (f *facts) since(g *group) time.Time {
	if g.pending == 0 {
		return time.Time{}
	}
	return f.now.Add(-time.Duration(g.oldest * float64(time.Second)))
}

func isLost(n *api.NamespaceStatus) bool       { return n.DataLoss != nil }
func isPaused(n *api.NamespaceStatus) bool     { return n.Paused != "" }
func refusesReads(n *api.NamespaceStatus) bool { return n.ReadsRefused != "" }
func isNotOpened(n *api.NamespaceStatus) bool  { return n.NotOpened != "" }
func isAlmostFull(n *api.NamespaceStatus) bool { return n.IsNearlyFull() && !n.IsFull() }

func hasNoQuotaLeft(n *api.NamespaceStatus) bool {
	return n.Quota != nil && n.Quota.Left == 0 && n.Pending > 0
}

// isThrottled leaves out what usedUp tells.
func isThrottled(n *api.NamespaceStatus) bool {
	return waitsFor("throttled")(n) && !hasNoQuotaLeft(n)
}

func isSpread(n *api.NamespaceStatus) bool {
	return waitsFor("quota")(n) && (n.Quota == nil || n.Quota.Left > 0)
}

func waitsFor(kind string) func(*api.NamespaceStatus) bool {
	return func(n *api.NamespaceStatus) bool { return n.Waits != nil && strings.HasPrefix(n.Waits.Why, kind) }
}

func (f *facts) lost() *api.Finding {
	w := f.status.Upstream.Watch
	if w == nil || w.Lost == "" {
		return nil
	}
	return say("upstream_lost", w.Since, "botwired restore --all gives upstream back what this host has a copy of, botwired forget --all goes on with what upstream has",
		"Upstream has lost writes that it had confirmed, and botwired has stopped asking it: botwired serves its own copies").
		Offering("botwired restore --all", "botwired forget --all")
}

func (f *facts) unwatched() *api.Finding {
	w := f.status.Upstream.Watch
	if !w.IsBroken(f.now) {
		return nil
	}
	return say("unwatched", w.Since, "botwired doctor looks at the way there; botwired tries again by itself",
		"Upstream does not tell of changes (%s): copies are fresh for cache.fresh_for", w.Reason).Offering("botwired doctor")
}

func (f *facts) dataLoss(g *group) *api.Finding {
	since, missing, of := g.first.DataLoss.Since, 0, 0
	for i := range f.status.Namespaces {
		if n := &f.status.Namespaces[i]; isLost(n) {
			missing, of = missing+n.DataLoss.Missing, of+n.DataLoss.Of
			if n.DataLoss.Since.Before(since) {
				since = n.DataLoss.Since
			}
		}
	}
	restore, forget := "botwired restore "+g.first.Namespace, "botwired forget "+g.first.Namespace
	remedy := fmt.Sprintf("is upstream.url right? %s gives them back to upstream, %s gives them up", restore, forget)
	return say("data_loss", since, remedy, "Upstream no longer holds %s of %s of %s: agents still get botwired's copies",
		words.Number(int64(missing)), words.Count(of, "entry"), g.name()).Offering(restore, forget)
}

func (f *facts) access() (remedy string, commands []string) {
	if f.status.Upstream.Watch != nil {
		return "look at the permissions of upstream.nats.context's user and at the bucket (botwired doctor)", []string{"botwired doctor"}
	}
	return api.RemedyAccess, nil
}

func (f *facts) paused(g *group) *api.Finding {
	remedy, commands := f.access()
	remedy, commands = remedy+"; botwired tries again by itself, and at once with botwired flush --now", append(commands, "botwired flush --now")
	switch {
	case strings.Contains(g.first.Paused, "one write after another"):
		remedy, commands = "the dead letters have upstream's reason; once it takes them, botwired dead-letters retry --all", []string{"botwired dead-letters retry --all"}
	case strings.Contains(g.first.Paused, "the key file lacks"):
		return say("writes_paused", f.since(g), "botwired seal status counts such entries and says what to do",
			"The writes of %s wait (%s): %s", g.name(), g.first.Paused, g.waiting()).Offering("botwired seal status")
	}
	return say("writes_paused", f.since(g), remedy, "Upstream does not let the writes of %s in (%s): %s", g.name(), g.first.Paused, g.waiting()).
		Offering(commands...)
}

func (f *facts) readsRefused(g *group) *api.Finding {
	remedy, commands := f.access()
	switch {
	case strings.Contains(g.first.ReadsRefused, "the key file lacks"):
		remedy, commands = "botwired seal status says what to do", []string{"botwired seal status"}
	case strings.HasPrefix(g.first.ReadsRefused, "HTTP 429"):
		remedy, commands = "botwired waits as long as upstream has said", nil
	}
	return say("reads_refused", time.Time{}, remedy,
		"Upstream does not let the reads of %s in (%s): botwired answers with its copies", g.name(), g.first.ReadsRefused).Offering(commands...)
}

func (f *facts) notOpened(g *group) *api.Finding {
	return say("not_opened", time.Time{}, "botwired seal status reads all of it, and says what to do",
		"Upstream holds what is not sealed with these keys in %s (%s): botwired refuses it", g.name(), g.first.NotOpened).Offering("botwired seal status")
}

func (f *facts) full(g *group) *api.Finding {
	return say("namespace_full", f.since(g), f.room(g)+"; botwired tries again by itself, and at once with botwired flush --now",
		"Upstream has no room for more in %s (%s): %s, and deletes go", g.name(), g.first.Full, g.waiting()).Offering("botwired flush --now")
}

func (f *facts) nearlyFull(g *group) *api.Finding {
	return say("namespace_nearly_full", time.Time{}, f.room(g), "%s %s nearly full (about %s of %s bytes, by upstream's last list): "+
		"writes wait once upstream has no room for more", g.name(), words.ByNumber(g.count, "is", "are"), words.Number(g.first.Bytes), words.Number(*g.first.BytesLimit))
}

// room says how a namespace gets room.
func (f *facts) room(g *group) string {
	if f.largest == nil {
		return api.RemedyRoom
	}
	var keys []string
	for _, k := range f.largest(g.first.Namespace) {
		keys = append(keys, fmt.Sprintf("%s (%s)", k.Key, words.Count(k.ListBytes, "byte")))
	}
	if len(keys) == 0 {
		return api.RemedyRoom
	}
	return fmt.Sprintf("%s; the largest in %s: %s", api.RemedyRoom, g.first.Namespace, strings.Join(keys, ", "))
}

func (f *facts) usedUp(g *group) *api.Finding {
	q, since := g.first.Quota, time.Time{}
	if q.RunsOutAt != nil {
		since = *q.RunsOutAt
	}
	if q.Used < q.Limit {
		until := ""
		if waitsFor("throttled")(g.first) && g.first.Waits.Until != nil {
			until = " until " + clock(*g.first.Waits.Until)
		}
		return say("quota_used_up", since, "somebody else writes to it, or quota.writes_per_day is more than upstream allows; botwired flush --now tries at once",
			"Upstream says that the quota of %s is used up (HTTP 429): %s%s", g.name(), waits(g.pending), until).Offering("botwired flush --now")
	}
	return say("quota_used_up", since, "write to fewer keys, or raise quota.writes_per_day if upstream allows more; of several writes to one key only the newest is sent",
		"%s used up the quota of %s writes: %s until %s", has(g), words.Number(int64(q.Limit)), waits(g.pending), clock(q.ResetsAt))
}

func has(g *group) string { return g.name() + words.ByNumber(g.count, " has", " have") }

func (f *facts) spread(g *group) *api.Finding {
	kind, left, until := api.Kind("quota_low"), " are nearly out of writes", ""
	if g.first.WaitsLongForQuota() {
		kind = "quota_delays"
	}
	if q := g.first.Quota; q != nil {
		until = " until about " + clock(f.now.Add(time.Duration(q.LingerSeconds*float64(time.Second))).Round(time.Minute))
	}
	if g.count == 1 {
		left = " has few of the quota's writes left"
		if q := g.first.Quota; q != nil {
			left = fmt.Sprintf(" has %s of the quota's %s left", words.Number(int64(q.Left)), words.Count(q.Limit, "write"))
		}
	}
	return say(kind, f.since(g), "botwired flush sends what is pending at once, as far as the quota goes",
		"%s%s: %s%s", g.name(), left, waits(g.pending), until).Offering("botwired flush")
}

func (f *facts) throttled(g *group) *api.Finding {
	until := ""
	if at := g.first.Waits.Until; at != nil {
		until = " until " + clock(*at)
	}
	return say("throttled", f.since(g), "botwired waits as long as upstream has said; botwired flush --now tries at once",
		"Upstream throttles %s%s: %s", g.name(), until, g.waiting()).Offering("botwired flush --now")
}

// failing reports namespaces whose writes fail although upstream is up.
func (f *facts) failing(g *group) *api.Finding {
	if f.status.Upstream.State == "down" {
		return nil
	}
	return say("failing", f.since(g), "botwired tries again by itself; botwired pending shows which",
		"Writes of %s fail and are tried again (%s): %s", g.name(), strings.TrimPrefix(g.first.Waits.Why, "failed: "), g.waiting()).
		Offering("botwired pending")
}
