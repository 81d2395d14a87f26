package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// refusesWrites says that the daemon refuses writes, since when and why; empty if it
// takes them.
func (s *status) refusesWrites(w io.Writer) string {
	switch {
	case s.Journal.RefusesWrites != "true": // guard 3.32
		return ""
	case s.Journal.Since == "":
		return "refused: " + string(s.Journal.Reason)
	}
	return "refused " + term.Since(w, s.Journal.Since) + ": " + string(s.Journal.Reason)
}

// nearFull is the percentage of its limit from which on a namespace is nearly full.
const nearFull = 80

// full says how full the namespace is, and what that means; empty if it is not nearly full.
func (n namespaceStatus) full(w io.Writer) string {
	bytes, limit := n.Bytes.Number(), n.BytesLimit.Number()
	if n.BytesLimit == "" || bytes < limit/100*nearFull+limit%100*nearFull/100 {
		return ""
	}
	text := fmt.Sprintf("%s holds about %d of the %d bytes that quota.namespace_bytes allows", n.Namespace, bytes, limit)
	if n.LimitLearned != "" {
		text = fmt.Sprintf("%s holds about %d bytes, and upstream has called it full at about %d, which counts %s", n.Namespace, bytes, limit, term.Until(w, n.LimitLearned))
	}
	if bytes < limit {
		return text + ": a write that would cross this is refused with 413"
	}
	return text + ": a write that makes it larger is refused with 413 until entries are deleted"
}

// quota says how much of the namespace's quota is used, and how long a write waits for its
// sake.
func (n namespaceStatus) quota(w io.Writer) string {
	if n.Quota.Limit == "" {
		return ""
	}
	text := string(n.Quota.Used) + " of " + string(n.Quota.Limit)
	_, short := w.(*term.Screen)
	if seconds, err := strconv.ParseFloat(string(n.Quota.Linger), 64); err == nil && seconds >= 1 && !short {
		text += ", writes wait " + n.Quota.Linger.Age()
	}
	if n.Quota.RunsOut != "" {
		if s, ok := w.(*term.Screen); ok {
			text += ", " + s.Left(n.Quota.RunsOut) + " left"
		} else {
			text += ", used up at " + n.Quota.RunsOut.Moment()
		}
	}
	return text
}

// oldest is the age of the oldest pending write; empty if there is none.
func (n namespaceStatus) oldest() string {
	if n.Pending == "0" {
		return ""
	}
	return n.OldestPending.Age()
}

// waitsShortly is what the namespace waits for in a few words, and until when.
func (n namespaceStatus) waitsShortly(s *term.Screen) string {
	kind, _, _ := strings.Cut(n.Waits.Why.Or(n.waits(io.Discard)), ":")
	if n.Waits.Until != "" {
		return kind + ", " + s.Left(n.Waits.Until)
	}
	if seconds, err := strconv.ParseFloat(string(n.Quota.Linger), 64); kind == "" && err == nil && seconds >= 1 {
		return n.Quota.Linger.Age() + ", for the quota"
	}
	return kind
}

// waits returns why nothing of the namespace goes upstream, or else why upstream refuses
// its reads.
func (n namespaceStatus) waits(w io.Writer) string {
	switch {
	case n.Waits.Why != "":
		return n.Waits.text(w)
	case n.Paused == "" && n.ReadsRefused != "":
		return "reads: " + string(n.ReadsRefused)
	}
	return string(n.Paused)
}

// upstream says how upstream does, and since when and why if it does not do well.
func (s *status) upstream(w io.Writer) string {
	u := s.Upstream
	text := u.URL.Or("unknown") + " is " + u.State.Or("unknown")
	if u.Reason == "" {
		return text
	}
	return fmt.Sprintf("%s %s: %s (%s)", text, term.Since(w, u.Since), u.Reason, lastAnswered(w, u.LastSuccess))
}

func lastAnswered(w io.Writer, at term.Cell) string {
	if at == "" {
		return "it has not answered since the start"
	}
	if s, ok := w.(*term.Screen); ok {
		return "it last answered " + term.Moment(s, at)
	}
	return "it last answered: " + string(at)
}

// running says which version runs where, and since when.
func (s *status) running(w io.Writer) string {
	text := string(s.Version)
	if s.Listen != "" {
		text += " at " + string(s.Listen)
	}
	if s.StartedAt != "" {
		text += ", up " + term.Since(w, s.StartedAt)
	}
	return text
}

// answered says how many reads the daemon has answered itself; empty for an older daemon.
func (s *status) answered() string {
	if s.Reads.Total == "" {
		return ""
	}
	text := words.Number(int64(s.Reads.Total.Number()))
	if total := s.Reads.Total.Number(); total > 0 {
		text += fmt.Sprintf(", %s answered here, %s asked of upstream", percent(s.Reads.Hits.Number(), total), words.Number(int64(s.Reads.Upstream.Number())))
	}
	return text
}

// saved says what the daemon has spared upstream and its callers; empty for an older daemon.
func (s *status) saved() string {
	if s.Writes.Acknowledged == "" {
		return ""
	}
	text := fmt.Sprintf("%s of %s writes needed no request", words.Number(int64(s.Writes.Saved.Number())), words.Number(int64(s.Writes.Acknowledged.Number())))
	if s.TimeSaved.Age() != "" && s.TimeSaved != "0" {
		text += ", and callers waited about " + s.TimeSaved.Age() + " less"
	}
	return text
}

func percent(part, whole int) string {
	if part == whole {
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", min(100*float64(part)/float64(whole), 99.9))
}

func (s *status) disk() string {
	if s.Disk.Journal == "" && s.Disk.Free == "" {
		return ""
	}
	return fmt.Sprintf("journal %s, copies %s, %s free", s.Disk.Journal.Size(), s.Disk.Copies.Size(), s.Disk.Free.Size())
}

func (s *status) memory() string {
	if s.Cache.Budget == "" {
		return ""
	}
	return fmt.Sprintf("%s of entries, at most %s", s.Cache.Bytes.Size(), s.Cache.Budget.Size())
}
