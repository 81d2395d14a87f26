package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

func printStatus(w io.Writer, s *api.Status, most int) error {
	if err := printSummary(w, &s.Summary); err != nil {
		return err
	}
	if err := term.Facts(w, facts(w, s)); err != nil || len(s.Namespaces) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return printNamespaces(w, s.Namespaces, s.NamespacesTotal, most)
}

// printSummary prints the sentence that says whether all is well.
func printSummary(w io.Writer, said *api.Summary) error {
	lines := []string{term.Printable(said.Text)}
	if said.Remedy != nil {
		lines = append(lines, term.Printable(*said.Remedy))
	}
	if screen, ok := w.(*term.Screen); ok {
		for i := range lines {
			lines[i] = term.Wrap(lines[i], screen.Columns)
		}
		lines[0] = screen.Bold(levelIn(screen.Palette, said.Level, lines[0]))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n")+"\n")
	return err
}

// levelIn colours a text by its level.
func levelIn(p term.Palette, level api.Level, text string) string {
	switch level {
	case api.LevelOK:
		return p.Green(text)
	case api.LevelCritical:
		return p.Red(text)
	}
	return p.Yellow(text)
}

// facts returns the status line by line. Lines that need a user's attention come first.
func facts(w io.Writer, s *api.Status) (facts [][2]string) {
	add := func(name, text string) {
		if text != "" {
			facts = append(facts, [2]string{name, text})
		}
	}
	add("writes", refusesWrites(w, &s.Journal))
	if len(facts) == 0 && !s.Ready {
		add("ready", "no: botwired is stopping")
	}
	watch := s.Upstream.Watch
	if watch != nil && watch.Lost != "" {
		add("lost", watch.Lost+`; "botwired restore --all" goes on with it and gives it what is here, "botwired forget --all" only goes on`)
	}
	add("data loss", dataLoss(w, s.Namespaces))
	letters, decide := letterCounts(s.DeadLetters, s.OpenDeadLetters)
	if decide {
		add("dead letters", letters)
	}
	add("version", fmt.Sprintf("%s at %s, up %s", s.Version, s.Listen, term.Since(w, s.StartedAt)))
	add("upstream", upstreamText(w, &s.Upstream))
	if watch != nil {
		add("watch", watchText(w, watch))
	}
	if c := s.Upstream.Concurrency; c.Reason != "" {
		add("concurrency", fmt.Sprintf("%d of %d: %s", c.Now, c.Limit, c.Reason))
	}
	if doubt := s.Identity.Newest; doubt != nil {
		add("identity", fmt.Sprintf("in doubt %s: %s", term.Ago(w, doubt.At), doubt.Detail))
	}
	add("pending", pendingText(s))
	if !decide {
		add("dead letters", letters)
	}
	add("reads", readsText(&s.Reads))
	add("saved", saved(&s.Figures))
	add("disk", diskText(&s.Disk))
	if at := s.History.Since; at != nil {
		add("history", "reaches back to "+term.Moment(w, *at)+": older versions were removed for room (history.disk)")
	}
	add("memory", fmt.Sprintf("%s of entries, at most %s", term.Size(s.Cache.Bytes), term.Size(s.Cache.Budget)))
	add("data_dir", s.DataDir)
	return facts
}

// pendingText returns how much is pending.
func pendingText(s *api.Status) string {
	text := strconv.Itoa(s.Pending)
	if s.Pending > 0 {
		text = fmt.Sprintf("%s, %s, the oldest %s", words.Plural(s.Pending, "write"), term.Size(s.PendingBytes), term.Age(s.OldestPendingSeconds))
	}
	if s.Rebuilding {
		text += ", so far: botwired is still reading its journal"
	}
	return text
}

// letterCounts returns how many dead letters there are, and whether any needs a decision.
func letterCounts(all, open int) (text string, decide bool) {
	switch {
	case all == 0:
		return "0", false
	case open == 0:
		return fmt.Sprintf("%d, none to decide on (superseded by a later write, or dropped)", all), false
	}
	text = fmt.Sprintf(`%d to decide on: "botwired dead-letters" says why upstream has refused them`, open)
	if all > open {
		text += fmt.Sprintf(" (and %d superseded by a later write, or dropped)", all-open)
	}
	return text, true
}

// printNamespaces prints at most most namespaces: first those that wait for something, are nearly full
// or have data loss, then those with the most pending writes.
func printNamespaces(w io.Writer, all []api.NamespaceStatus, total, most int) error {
	shown := all
	if len(all) > most {
		shown = slices.Clone(all)
		slices.SortStableFunc(shown, func(a, b api.NamespaceStatus) int {
			return cmp.Or(cmp.Compare(attention(&b), attention(&a)), cmp.Compare(b.Pending, a.Pending))
		})
		shown = shown[:most]
	}
	if err := printTable(w, shown); err != nil {
		return err
	}
	if more := max(len(all), total) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %s: --all shows them\n", words.Plural(more, "more namespace"))
	}
	_, isScreen := w.(*term.Screen)
	var reasons, full []string
	for _, n := range shown {
		if why := reason(&n); isScreen && strings.Contains(why, ": ") && !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		if text := fullness(w, &n); text != "" {
			full = append(full, text)
		}
	}
	var tried []string
	if slices.ContainsFunc(all, canBeTried) {
		tried = []string{`botwired tries again by itself; "botwired flush --now" tries at once what is throttled, paused or failed`}
	}
	return errors.Join(printNote(w, reasons), printNote(w, full), printNote(w, tried))
}

// printTable prints the table of namespaces. On a screen, printNamespaces prints the reasons for waits
// below it.
func printTable(w io.Writer, shown []api.NamespaceStatus) error {
	columns := []string{"NAMESPACE", "PENDING", "SIZE", "OLDEST", "WAITS"}
	quotas := slices.ContainsFunc(shown, func(n api.NamespaceStatus) bool { return n.Quota != nil })
	if quotas {
		columns = append(columns, "QUOTA")
	}
	var rows [][]string
	for _, n := range shown {
		oldest := ""
		if n.Pending > 0 {
			oldest = term.Age(n.OldestPendingSeconds)
		}
		name := n.Namespace
		if n.Sealed {
			name += " (sealed)"
		}
		row := []string{name, strconv.Itoa(n.Pending), term.Size(n.PendingBytes), oldest, waits(w, &n)}
		if quotas {
			row = append(row, quotaUse(w, n.Quota))
		}
		rows = append(rows, row)
	}
	return term.Table(w, columns, rows)
}

// printNote prints lines below a table, wrapped on a screen. Without lines it prints nothing.
func printNote(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	var b strings.Builder
	for _, line := range lines {
		line = term.Printable(line)
		if s, ok := w.(*term.Screen); ok {
			line = term.Wrap(line, s.Columns)
		}
		b.WriteString(line + "\n")
	}
	_, err := fmt.Fprint(w, "\n", b.String())
	return err
}

// attention returns 1 for a namespace that waits for something, is nearly full or has data loss,
// otherwise 0.
func attention(n *api.NamespaceStatus) int {
	if reason(n) != "" || n.IsNearlyFull() || n.DataLoss != nil {
		return 1
	}
	return 0
}

// canBeTried reports whether the namespace waits for a time that a user can cut short.
func canBeTried(n api.NamespaceStatus) bool {
	if n.Waits == nil {
		return false
	}
	kind, _, _ := strings.Cut(n.Waits.Why, ":")
	return kind == "throttled" || kind == "paused" || kind == "failed"
}
