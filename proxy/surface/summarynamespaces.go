package surface

import (
	"fmt"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/words"
)

// group counts the namespaces that share a finding.
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
	return fmt.Sprintf("%s (%s, say)", words.Count(g.count, "namespace"), g.first.Namespace)
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

func isLost(n *api.NamespaceStatus) bool { return n.DataLoss != nil && !n.DataLoss.Restoring }

func isRestoring(n *api.NamespaceStatus) bool { return n.DataLoss != nil && n.DataLoss.Restoring }

func isPaused(n *api.NamespaceStatus) bool { return n.Paused != "" }

func refusesReads(n *api.NamespaceStatus) bool { return n.ReadsRefused != "" }

func isNotOpened(n *api.NamespaceStatus) bool { return n.NotOpened != "" }

func isAlmostFull(n *api.NamespaceStatus) bool { return n.IsNearlyFull() && !n.IsFull() }

func hasNoQuotaLeft(n *api.NamespaceStatus) bool {
	return n.Quota != nil && n.Quota.Left == 0 && n.Pending > 0
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
	return say(api.LevelWarning, w.Since, "botwired restore --all gives upstream back what this host has a copy of, botwired forget --all goes on with what upstream has",
		"Upstream has lost writes that it had confirmed, and botwired has stopped asking it: botwired serves its own copies")
}

// unwatchedFor is how long a watch may be broken before the summary says so: an election of another
// leader breaks the watch for seconds.
const unwatchedFor = 10 * time.Second

func (f *facts) unwatched() *api.Finding {
	w := f.status.Upstream.Watch
	if w == nil || w.CaughtUp || w.Lost != "" || f.now.Sub(w.Since) < unwatchedFor {
		return nil
	}
	return say(api.LevelNotice, w.Since, "botwired doctor looks at the way there; botwired tries again by itself",
		"Upstream does not tell of changes (%s): copies are fresh for cache.fresh_for", w.Reason)
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
	remedy := fmt.Sprintf("is upstream.url right? botwired restore %s gives them back to upstream, botwired forget %s gives them up", g.first.Namespace, g.first.Namespace)
	return say(api.LevelWarning, since, remedy, "Upstream no longer holds %s of the %s of %s that it had confirmed: botwired serves its own copies",
		words.Number(int64(missing)), words.Count(of, "entry"), g.name())
}

func (f *facts) restoring(g *group) *api.Finding {
	return say(api.LevelNotice, g.first.DataLoss.Since, "", "botwired gives upstream back what it has lost of %s: %s to go",
		g.name(), words.Count(g.first.DataLoss.Missing, "entry"))
}

// access says where to look if upstream refuses requests.
func (f *facts) access() string {
	if f.status.Upstream.Watch != nil {
		return "look at the permissions of upstream.nats.context's user and at the bucket (botwired doctor)"
	}
	return "look at upstream.url and upstream.headers"
}

func (f *facts) paused(g *group) *api.Finding {
	remedy := f.access() + "; botwired tries again by itself, and at once with botwired flush --now"
	switch {
	case strings.Contains(g.first.Paused, "HTTP 507"):
		remedy = "delete entries, or have upstream give the namespace more room"
	case strings.Contains(g.first.Paused, "one write after another"):
		remedy = "botwired dead-letters says why; once upstream takes them, botwired dead-letters retry --all"
	case strings.Contains(g.first.Paused, "the key file lacks"):
		return say(api.LevelWarning, f.since(g), "bring the key's line from a host that has it; botwired seal status names it",
			"The writes of %s wait (%s): %s", g.name(), g.first.Paused, g.waiting())
	}
	return say(api.LevelWarning, f.since(g), remedy, "Upstream does not let the writes of %s in (%s): %s", g.name(), g.first.Paused, g.waiting())
}

func (f *facts) readsRefused(g *group) *api.Finding {
	return say(api.LevelWarning, time.Time{}, f.access(),
		"Upstream does not let the reads of %s in (%s): botwired answers with its copies", g.name(), g.first.ReadsRefused)
}

func (f *facts) notOpened(g *group) *api.Finding {
	return say(api.LevelWarning, time.Time{}, "botwired seal status reads all of it, and says what to do",
		"Upstream holds what is not sealed with these keys in %s (%s): botwired refuses it", g.name(), g.first.NotOpened)
}

func (f *facts) full(g *group) *api.Finding {
	return say(api.LevelWarning, time.Time{}, "delete entries, write shorter values, or raise quota.namespace_bytes if upstream allows more",
		"%s: writes that make it larger are refused", g.fill("is full"))
}

func (f *facts) nearlyFull(g *group) *api.Finding {
	return say(api.LevelNotice, time.Time{}, "delete entries, write shorter values, or raise quota.namespace_bytes if upstream allows more",
		"%s: at its limit, writes that make it larger are refused", g.fill("is nearly full"))
}

func (g *group) fill(how string) string {
	if g.count > 1 {
		how = strings.Replace(how, "is", "are", 1)
	}
	return fmt.Sprintf("%s %s (about %s of %s bytes)", g.name(), how, words.Number(g.first.Bytes), words.Number(*g.first.BytesLimit))
}

func (f *facts) usedUp(g *group) *api.Finding {
	q, since := g.first.Quota, time.Time{}
	if q.RunsOutAt != nil {
		since = *q.RunsOutAt
	}
	if q.Used < q.Limit {
		return say(api.LevelWarning, since, "somebody else writes to it, or quota.writes_per_day is more than upstream allows",
			"Upstream says that the quota of %s is used up (HTTP 429): %s until %s", g.name(), waits(g.pending), clock(q.ResetsAt))
	}
	return say(api.LevelWarning, since, "write to fewer keys, or raise quota.writes_per_day if upstream allows more; of several writes to one key only the newest is sent",
		"%s used up the quota of %s writes: %s until %s", has(g), words.Number(int64(q.Limit)), waits(g.pending), clock(q.ResetsAt))
}

func has(g *group) string {
	if g.count == 1 {
		return g.name() + " has"
	}
	return g.name() + " have"
}

func (f *facts) spread(g *group) *api.Finding {
	level, left, until := api.LevelNotice, "few", ""
	if g.first.WaitsLongForQuota() {
		level = api.LevelWarning
	}
	if q := g.first.Quota; q != nil {
		until = " until about " + clock(f.now.Add(time.Duration(q.LingerSeconds*float64(time.Second))).Round(time.Minute))
		if g.count == 1 {
			left = words.Number(int64(q.Left))
		}
	}
	return say(level, f.since(g), "botwired flush sends what is pending at once, as far as the quota goes",
		"%s %s of the quota's %s left: %s%s", has(g), left, quotaOf(g), waits(g.pending), until)
}

func quotaOf(g *group) string {
	if g.count > 1 || g.first.Quota == nil {
		return "writes"
	}
	return words.Count(g.first.Quota.Limit, "write")
}

func (f *facts) throttled(g *group) *api.Finding {
	until := ""
	if at := g.first.Waits.Until; at != nil {
		until = " until " + clock(*at)
	}
	return say(api.LevelNotice, f.since(g), "botwired waits as long as upstream has said; botwired flush --now tries at once",
		"Upstream throttles %s%s: %s", g.name(), until, g.waiting())
}

// failing reports namespaces whose writes fail although upstream is up.
func (f *facts) failing(g *group) *api.Finding {
	if f.status.Upstream.State == "down" {
		return nil
	}
	return say(api.LevelNotice, f.since(g), "botwired tries again by itself; botwired pending shows which",
		"Writes of %s fail and are tried again (%s): %s", g.name(), strings.TrimPrefix(g.first.Waits.Why, "failed: "), g.waiting())
}
