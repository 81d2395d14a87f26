package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/doctor"
	"github.com/botwired/botwired/internal/words"
)

const shownNamespaces = 20

func newStatusCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the running daemon",
		GroupID: GroupDaily,
		Example: "  botwired status\n" +
			"  botwired status --watch\n" +
			"  botwired status --json | jq .upstream.state",
		Long: "Show the state of the running daemon: first, in a sentence each, what is wrong and what to do, or that all is\n" +
			"well. Of many namespaces with pending writes, the table has those that wait for something and those with\n" +
			"the most writes. On a terminal, times are said as a distance (\"3 minutes ago\"), and dates are those of this\n" +
			"machine's zone; elsewhere they are RFC 3339 in UTC.\n\n" +
			"With --ready, status only asks whether the daemon can take writes now, and is not about to stop. With\n" +
			"--live, it only asks whether the daemon lives. It exits 0 if so, and 1 if not, and needs no token.",
		Args: NoArguments,
	}
	asJSON := JSONFlag(cmd)
	flags := cmd.Flags()
	all := flags.Bool("all", false, "show all namespaces with pending writes")
	watch := flags.Bool("watch", false, "show it anew every second, until Ctrl-C")
	ready := flags.Bool("ready", false, "only ask whether the daemon is ready to take writes: exit 0 if it is, 1 if not")
	live := flags.Bool("live", false, "only ask whether the daemon lives: exit 0 if it does, 1 if not")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, _ []string) error {
		most := shownNamespaces
		if *all {
			most = math.MaxInt
		}
		switch {
		case *all && *live, *all && *ready, *live && *ready:
			return Usagef("--all, --live and --ready exclude each other: expected one of them at most")
		case *watch && (*live || *ready || *asJSON):
			return Usagef("--watch is for the whole status on a terminal: expected it without --json, --live and --ready")
		case *watch && !p.IsTerminal(p.Stdout):
			return Usagef("--watch draws on a terminal, and standard output is none: expected no --watch")
		}
		switch {
		case *ready:
			return p.askProbe(ctx, c, "readyz", "ready", *asJSON)
		case *live:
			return p.askProbe(ctx, c, "livez", "alive", *asJSON)
		}
		asked := api.Request{Path: api.Surface("status")}
		print := func(w io.Writer) error {
			answer, err := c.Do(ctx, asked)
			if err != nil {
				return err
			}
			s, err := api.ReadStatus(answer.Body)
			switch {
			case err != nil:
				return c.Foreign()
			case *asJSON:
				return term.JSON(w, answer.Body)
			}
			return printStatus(w, s, most)
		}
		if !*watch {
			return print(p.Screen())
		}
		if !*all {
			asked.Query = url.Values{"namespaces": {strconv.Itoa(shownNamespaces)}}
		}
		return p.Watch(ctx, print)
	})
	return cmd
}

// askProbe prints the answer to a probe. It must be the wanted one: another program may answer every
// request with some JSON.
func (p *Program) askProbe(ctx context.Context, c *attach.Client, path, want string, asJSON bool) error {
	var answer struct{ Status string }
	got, err := c.Read(ctx, api.Request{Path: api.Surface(path)}, &answer)
	switch {
	case err != nil:
		return err
	case answer.Status != want:
		return c.Foreign()
	case asJSON:
		return term.JSON(p.Stdout, got.Body)
	}
	_, err = fmt.Fprintln(p.Stdout, want)
	return err
}

func printStatus(w io.Writer, s *api.Status, most int) error {
	for _, finding := range append([]api.Finding{s.Summary.Finding}, s.Summary.Also...) { // guard 3.32
		sayFinding(w, &finding)
	}
	if err := term.Facts(w, facts(w, s)); err != nil || len(s.Namespaces) == 0 {
		return err
	}
	fmt.Fprintln(w)
	shown := s.Namespaces
	if len(shown) > most {
		shown = api.MostUrgent(shown, most)
	}
	err := printNamespaces(w, shown)
	if more := max(len(s.Namespaces), s.NamespacesTotal) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %s: --all shows them\n", words.Plural(more, "more namespace"))
	}
	return err
}

func sayFinding(w io.Writer, f *api.Finding) {
	text := term.Printable(f.Text)
	if f.Since != nil {
		text += " (began " + term.Ago(w, *f.Since) + ")"
	}
	s, isScreen := w.(*term.Screen)
	if isScreen {
		text = s.Bold(levelIn(s.Palette, f.Level, term.Wrap(text, s.Columns)))
	}
	remedy := f.Remedy
	if remedy != nil && f.Kind == "dead_letters" { // on the page, a button stands there
		remedy = new(*remedy + ": botwired dead-letters")
	}
	for _, line := range []*string{&f.Detail, remedy} {
		switch {
		case line == nil || *line == "":
		case isScreen:
			text += "\n" + term.Wrap(term.Printable(*line), s.Columns)
		default:
			text += "\n" + term.Printable(*line)
		}
	}
	fmt.Fprintln(w, text+"\n")
}

func levelIn(p term.Palette, level api.Level, text string) string {
	switch level {
	case api.LevelOK:
		return p.Green(text)
	case api.LevelCritical:
		return p.Red(text)
	}
	return p.Yellow(text)
}

func facts(w io.Writer, s *api.Status) (facts [][2]string) {
	add := func(name, text string) { facts = append(facts, [2]string{name, text}) }
	add("version", fmt.Sprintf("%s at %s, up %s", s.Version, s.Listen, term.Since(w, s.StartedAt)))
	add("upstream", upstreamText(w, &s.Upstream))
	if watch := s.Upstream.Watch; watch != nil {
		add("watch", watchText(w, watch))
	}
	if c := s.Upstream.Concurrency; c.Reason != "" {
		add("concurrency", fmt.Sprintf("%d of %d: %s", c.Now, c.Limit, c.Reason))
	}
	add("pending", pendingText(s))
	add("dead letters", doctor.LettersText(s))
	if s.Conflicts > 0 {
		add("conflicts", doctor.ConflictsText(s))
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

func printNamespaces(w io.Writer, shown []api.NamespaceStatus) error {
	columns := []string{"NAMESPACE", "PENDING", "SIZE", "OLDEST", "STATE"}
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
		row := []string{name, strconv.Itoa(n.Pending), term.Size(n.PendingBytes), oldest, stateOf(w, &n)}
		if quotas {
			row = append(row, quotaUse(w, n.Quota))
		}
		rows = append(rows, row)
	}
	return term.Table(w, columns, rows)
}

// stateOf returns what a namespace waits for, and what else is wrong with it; "" if nothing is.
func stateOf(w io.Writer, n *api.NamespaceStatus) string {
	parts := []string{cmp.Or(waitText(w, n.Waits), n.Paused)}
	if n.DataLoss != nil {
		parts = append(parts, fmt.Sprintf("data loss %s: upstream lacks %d of %d", term.Since(w, n.DataLoss.Since), n.DataLoss.Missing, n.DataLoss.Of))
	}
	if n.ReadsRefused != "" {
		parts = append(parts, "reads: "+n.ReadsRefused)
	}
	if n.NotOpened != "" {
		parts = append(parts, "refused: "+n.NotOpened)
	}
	if n.IsNearlyFull() {
		parts = append(parts, fmt.Sprintf("holds about %d of %d bytes", n.Bytes, *n.BytesLimit))
	}
	return strings.TrimPrefix(strings.Join(parts, "; "), "; ")
}

// quotaUse returns how much of its quota a namespace has used, and how long a write waits because of
// the quota.
func quotaUse(w io.Writer, q *api.Quota) string {
	if q == nil {
		return ""
	}
	text := fmt.Sprintf("%d of %d", q.Used, q.Limit)
	if q.LingerSeconds >= 1 {
		text += ", writes wait " + term.Age(q.LingerSeconds)
	}
	switch {
	case q.RunsOutAt == nil:
	case q.Left == 0:
		text += ", used up " + term.Ago(w, *q.RunsOutAt)
	case q.LingerSeconds < 1: // else botwired makes it last
		text += ", used up " + term.Ahead(w, *q.RunsOutAt)
	}
	return text
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

// upstreamText returns upstream's state. If upstream is not well, it adds when that began, why, and
// when upstream last answered.
func upstreamText(w io.Writer, u *api.UpstreamState) string {
	text := u.URL + " is " + u.Said()
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

func readsText(r *api.Reads) string {
	text := words.Number(r.Total)
	if r.Total > 0 {
		text += fmt.Sprintf(", %s answered here, %s asked of upstream", percent(r.Hits, r.Total), words.Number(r.Upstream))
	}
	return text
}

func saved(f *api.Figures) string {
	text := fmt.Sprintf("%s of %s writes", words.Number(f.Writes.Saved), words.Number(f.Writes.Acknowledged))
	if f.TimeSaved != nil && *f.TimeSaved != 0 {
		text += ", about " + term.Age(*f.TimeSaved) + " of waiting"
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
	return of + fmt.Sprintf("broken %s: %s; copies count for cache.fresh_for", term.Since(w, watch.Since), cmp.Or(watch.Lost, watch.Reason, "it has not caught up yet"))
}
