package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// refusesWrites returns when the daemon began to refuse writes, and why, or "" if the daemon accepts
// them.
func refusesWrites(w io.Writer, j *api.JournalState) string {
	switch {
	case !j.RefusesWrites: // guard 3.32
		return ""
	case j.Since == nil:
		return "refused: " + j.Reason
	}
	return "refused " + term.Since(w, *j.Since) + ": " + j.Reason
}

// fullness returns how full a namespace is and what happens next, or "" if it is not nearly full.
func fullness(w io.Writer, n *api.NamespaceStatus) string {
	if !n.IsNearlyFull() {
		return ""
	}
	text := fmt.Sprintf("%s holds about %d of the %d bytes that quota.namespace_bytes allows", n.Namespace, n.Bytes, *n.BytesLimit)
	if n.BytesLimitLearned != nil {
		text = fmt.Sprintf("%s holds about %d bytes, and upstream has called it full at about %d, which counts %s",
			n.Namespace, n.Bytes, *n.BytesLimit, term.Until(w, *n.BytesLimitLearned))
	}
	if !n.IsFull() {
		return text + ": a write that would cross this is refused with 413"
	}
	return text + ": a write that makes it larger is refused with 413 until entries are deleted"
}

// quotaUse returns how much of its quota a namespace has used, and how long a write waits because of
// the quota.
func quotaUse(w io.Writer, q *api.Quota) string {
	if q == nil {
		return ""
	}
	text := fmt.Sprintf("%d of %d", q.Used, q.Limit)
	s, short := w.(*term.Screen)
	if q.LingerSeconds >= 1 && !short {
		text += ", writes wait " + term.Age(q.LingerSeconds)
	}
	switch {
	case q.RunsOutAt == nil:
		return text
	case short:
		return text + ", " + s.Left(*q.RunsOutAt) + " left"
	}
	return text + ", used up at " + term.Plain(*q.RunsOutAt)
}

// waitText returns why something waits and when the wait ends, or "" if it does not wait.
func waitText(w io.Writer, wait *api.Wait) string {
	switch {
	case wait == nil:
		return ""
	case wait.Until == nil:
		return wait.Why
	}
	return wait.Why + ", " + term.Until(w, *wait.Until)
}

// reason returns why a namespace's writes wait, or why upstream refuses its reads.
func reason(n *api.NamespaceStatus) string {
	switch {
	case n.Waits != nil:
		return n.Waits.Why
	case n.Paused == "" && n.ReadsRefused != "":
		return "reads: " + n.ReadsRefused
	case n.Paused == "" && n.NotOpened != "":
		return "refused: " + n.NotOpened
	}
	return n.Paused
}

// waits returns why a namespace waits and when the wait ends. On a screen, which has less room, it
// returns only the kind of wait.
func waits(w io.Writer, n *api.NamespaceStatus) string {
	s, short := w.(*term.Screen)
	kind, _, _ := strings.Cut(reason(n), ":")
	switch {
	case !short && n.Waits != nil:
		return waitText(w, n.Waits)
	case !short:
		return reason(n)
	case n.Waits != nil && n.Waits.Until != nil:
		return kind + ", " + s.Left(*n.Waits.Until)
	case kind == "" && n.Quota != nil && n.Quota.LingerSeconds >= 1:
		return term.Age(n.Quota.LingerSeconds) + ", for the quota"
	}
	return kind
}

// upstreamText returns upstream's state. If upstream is not well, it adds when that began, why, and
// when upstream last answered.
func upstreamText(w io.Writer, u *api.UpstreamState) string {
	text := u.URL + " is " + u.State
	if u.Reason == "" {
		return text
	}
	answered := "it has not answered since the start"
	if u.LastSuccessAt != nil {
		answered = "it last answered: " + u.LastSuccessAt.Format(time.RFC3339Nano)
		if _, ok := w.(*term.Screen); ok {
			answered = "it last answered " + term.Moment(w, *u.LastSuccessAt)
		}
	}
	return fmt.Sprintf("%s %s: %s (%s)", text, term.Since(w, u.Since), u.Reason, answered)
}

// readsText returns how many reads there were, and how many the daemon answered itself.
func readsText(r *api.Reads) string {
	text := words.Number(r.Total)
	if r.Total > 0 {
		text += fmt.Sprintf(", %s answered here, %s asked of upstream", percent(r.Hits, r.Total), words.Number(r.Upstream))
	}
	return text
}

// saved returns how many requests the daemon has saved, and how much waiting.
func saved(f *api.Figures) string {
	text := fmt.Sprintf("%s of %s writes needed no request", words.Number(f.Writes.Saved), words.Number(f.Writes.Acknowledged))
	if f.TimeSaved != nil && *f.TimeSaved != 0 {
		text += ", and callers waited about " + term.Age(*f.TimeSaved) + " less"
	}
	return text
}

func percent(part, whole int64) string {
	if part == whole {
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", min(100*float64(part)/float64(whole), 99.9))
}

func diskText(d *api.Disk) string {
	text := fmt.Sprintf("journal %s, copies %s", term.Size(d.Journal), term.Size(d.Copies))
	if d.Free != nil {
		text += ", " + term.Size(*d.Free) + " free"
	}
	return text
}

// watchText returns the state of the watch through which a cluster reports changes.
func watchText(w io.Writer, watch *api.WatchState) string {
	of := ""
	if watch.Bucket != "" {
		of = "the bucket " + watch.Bucket
		if watch.Server != "" {
			of += " at " + watch.Server
		}
		of += ", "
	}
	if watch.CaughtUp {
		return of + fmt.Sprintf("caught up %s: what other hosts change is seen at once, and no answer gets old; %s, %s of memory",
			term.Since(w, watch.Since), words.Plural(watch.Entries, "entry"), term.Size(watch.Bytes))
	}
	return of + fmt.Sprintf("broken %s: %s; copies count for cache.fresh_for", term.Since(w, watch.Since), cmp.Or(watch.Reason, "it has not caught up yet"))
}

// dataLoss returns what upstream seems to have lost.
func dataLoss(w io.Writer, namespaces []api.NamespaceStatus) string {
	var lines []string
	for _, n := range namespaces {
		if n.DataLoss == nil {
			continue
		}
		what := `"botwired restore ` + n.Namespace + `" gives them back to upstream, "botwired forget ` + n.Namespace + `" gives them up`
		if n.DataLoss.Restoring {
			what = "botwired is giving them back to upstream"
		}
		lines = append(lines, fmt.Sprintf("%s, upstream lacks %d of the %d entries of %s that it has confirmed, and botwired serves its copies: is upstream.url right? %s",
			term.Since(w, n.DataLoss.Since), n.DataLoss.Missing, n.DataLoss.Of, n.Namespace, what))
	}
	if more := len(lines) - shownLosses; more > 0 {
		lines = append(lines[:shownLosses], fmt.Sprintf("and %s", words.Plural(more, "more namespace")))
	}
	return strings.Join(lines, "; ")
}

// shownLosses limits how many namespaces with data loss the status describes.
const shownLosses = 5
