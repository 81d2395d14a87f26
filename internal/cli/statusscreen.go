package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

func printStatus(w io.Writer, c *attach.Client, body []byte, most int) error {
	s, err := readStatus(c, body)
	if err != nil {
		return err
	}
	if err := s.printSummary(w); err != nil {
		return err
	}
	if err := term.Facts(w, s.facts(w)); err != nil || len(s.Namespaces) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return printNamespaces(w, s.Namespaces, s.AllNamespaces.Number(), most)
}

// printSummary prints the sentence that says whether all is well. An older daemon has none.
func (s *status) printSummary(w io.Writer) error {
	said := s.Summary
	if said.Text == "" {
		return nil
	}
	lines := []string{term.Printable(string(said.Text))}
	if said.Remedy != "" {
		lines = append(lines, term.Printable(string(said.Remedy)))
	}
	if screen, ok := w.(*term.Screen); ok {
		for i := range lines {
			lines[i] = term.Wrap(lines[i], screen.Columns)
		}
		lines[0] = screen.Bold(levelIn(screen.Palette, string(said.Level), lines[0]))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n")+"\n")
	return err
}

// levelIn colours a text as bad as the level says.
func levelIn(p term.Palette, level, text string) string {
	switch level {
	case "ok":
		return p.Green(text)
	case "notice", "warning":
		return p.Yellow(text)
	case "critical":
		return p.Red(text)
	}
	return text
}

// facts are the status line by line: first what needs somebody.
func (s *status) facts(w io.Writer) (facts [][2]string) {
	add := func(name, text string) {
		if text != "" {
			facts = append(facts, [2]string{name, text})
		}
	}
	add("writes", s.refusesWrites(w))
	if len(facts) == 0 && s.Ready == "false" {
		add("ready", "no: botwired is stopping")
	}
	add("lost", s.lost())
	add("suspect", s.suspects(w))
	letters, decide := s.deadLetters()
	if decide {
		add("dead letters", letters)
	}
	add("version", s.running(w))
	add("upstream", s.upstream(w))
	add("watch", s.watched(w))
	if c := s.Upstream.Concurrency; c.Reason != "" {
		add("concurrency", fmt.Sprintf("%s of %s: %s", c.Now, c.Limit, c.Reason))
	}
	if doubt := s.Identity.Newest; doubt.At != "" {
		add("identity", fmt.Sprintf("in doubt %s: %s", term.Ago(w, doubt.At), doubt.Detail))
	}
	add("pending", s.pending())
	if !decide {
		add("dead letters", letters)
	}
	add("reads", s.answered())
	add("saved", s.saved())
	add("disk", s.disk())
	add("memory", s.memory())
	add("data_dir", string(s.DataDir))
	return facts
}

// pending says how much waits for upstream.
func (s *status) pending() string {
	text := string(s.Pending)
	if n := s.Pending.Number(); n > 0 {
		text = fmt.Sprintf("%s, %s, the oldest %s", words.Plural(n, "write"), s.PendingBytes.Size(), s.OldestPending.Age())
	}
	if s.Rebuilding == "true" {
		text += ", so far: botwired is still reading its journal"
	}
	return text
}

// deadLetters says how many there are, and whether any waits for a person to decide.
func (s *status) deadLetters() (text string, decide bool) {
	all, open := s.DeadLetters.Number(), s.OpenDeadLetters.Number()
	switch {
	case all <= 0:
		return s.DeadLetters.Or("unknown"), false
	case s.OpenDeadLetters == "":
		open = all
	case open <= 0:
		return fmt.Sprintf("%d, none to decide on (superseded by a later write, or dropped)", all), false
	}
	text = fmt.Sprintf(`%d to decide on: "botwired dead-letters" says why upstream has refused them`, open)
	if all > open {
		text += fmt.Sprintf(" (and %d superseded by a later write, or dropped)", all-open)
	}
	return text, true
}

// printNamespaces prints no more than most of them: first those that wait for something or are nearly full, then
// those with the most pending writes.
func printNamespaces(w io.Writer, all []namespaceStatus, total, most int) error {
	shown := all
	if len(all) > most {
		shown = slices.Clone(all)
		slices.SortStableFunc(shown, func(a, b namespaceStatus) int {
			return cmp.Or(cmp.Compare(b.attention(), a.attention()), cmp.Compare(b.Pending.Number(), a.Pending.Number()))
		})
		shown = shown[:most]
	}
	columns, rows := namespaceRows(w, shown)
	if err := term.Table(w, columns, rows); err != nil {
		return err
	}
	if more := max(len(all), total) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %s: --all shows them\n", words.Plural(more, "more namespace"))
	}
	if err := errors.Join(printReasons(w, shown), printFull(w, shown)); err != nil {
		return err
	}
	if slices.ContainsFunc(all, namespaceStatus.canBeTried) {
		return printNote(w, "botwired tries again by itself; \"botwired flush --now\" tries at once what is throttled, paused or failed\n")
	}
	return nil
}

// namespaceRows returns the header and the rows of the table of namespaces. A screen has less room:
// there, printReasons says below why they wait.
func namespaceRows(w io.Writer, shown []namespaceStatus) (columns []string, rows [][]string) {
	columns = []string{"NAMESPACE", "PENDING", "SIZE", "OLDEST", "WAITS"}
	quotas := slices.ContainsFunc(shown, func(n namespaceStatus) bool { return n.quota(w) != "" })
	if quotas {
		columns = append(columns, "QUOTA")
	}
	for _, n := range shown {
		waits := n.waits(w)
		if s, ok := w.(*term.Screen); ok {
			waits = n.waitsShortly(s)
		}
		row := []string{string(n.Namespace), string(n.Pending), n.PendingBytes.Size(), n.oldest(), waits}
		if quotas {
			row = append(row, n.quota(w))
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// printReasons says on a screen why the namespaces of the table wait, each reason once.
func printReasons(w io.Writer, shown []namespaceStatus) error {
	if _, ok := w.(*term.Screen); !ok {
		return nil
	}
	var reasons []string
	for _, n := range shown {
		why := n.Waits.Why.Or(n.waits(io.Discard))
		if strings.Contains(why, ": ") && !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return printNote(w, strings.Join(reasons, "\n")+"\n")
}

// printNote prints lines below a table, wrapped if they are on a screen.
func printNote(w io.Writer, lines string) error {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		line = term.Printable(strings.TrimSuffix(line, "\n"))
		if s, ok := w.(*term.Screen); ok {
			line = term.Wrap(line, s.Columns)
		}
		b.WriteString(line + "\n")
	}
	_, err := fmt.Fprint(w, "\n", b.String())
	return err
}

// printFull has a line for each namespace that is nearly full.
func printFull(w io.Writer, shown []namespaceStatus) error {
	var lines []string
	for _, n := range shown {
		if text := n.full(w); text != "" {
			lines = append(lines, text+"\n")
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return printNote(w, strings.Join(lines, ""))
}

// attention is 1 for a namespace that waits for something, is nearly full or suspect, and else 0.
func (n namespaceStatus) attention() int {
	if n.waits(io.Discard) != "" || n.full(io.Discard) != "" || n.Suspect.Since != "" {
		return 1
	}
	return 0
}

// canBeTried reports whether the namespace waits for a time that a person can cut short.
func (n namespaceStatus) canBeTried() bool {
	kind, _, _ := strings.Cut(string(n.Waits.Why), ":")
	return kind == "throttled" || kind == "paused" || kind == "failed"
}
