package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/keyname"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/internal/words"
)

const shownValue = 60

func newHistoryCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "history NAMESPACE KEY | --lost [NAMESPACE]",
		Short:   "List the states that an entry has had",
		GroupID: groupMemory,
		Example: "  botwired history my-agent user_name\n" +
			"  botwired history my-agent user_name --json | jq -r '.revisions[1].value'\n" +
			"  botwired history --lost",
		Long: "List the states that an entry has had, the present one first. The table has the beginning of each value, and\n" +
			"--json all of it. HOST is \"this\" for a write of this daemon. Behind NATS it is the machine's name and the data\n" +
			"directory's, of every host.\n\n" +
			"These are the writes of this daemon and what upstream has shown it, up to 100, as far back as history.disk has\n" +
			"room: what was removed between two of them has a line of its own. In front of NATS, the revisions that the bucket\n" +
			"keeps (8), of all hosts, are among them.\n\n" +
			"A conflict of two hosts that write to the same key is decided by time: the later write stays, and the other is\n" +
			"kept with the state lost. --lost lists these, the last one first. To have one instead: botwired undo NAMESPACE\n" +
			"KEY --to REVISION.",
	}
	asJSON := JSONFlag(cmd)
	lost := cmd.Flags().Bool("lost", false, "the states of all entries, or of a namespace's, that have lost a conflict of two hosts")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *lost {
			return arguments(0, 1)(cmd, args)
		}
		return arguments(2, 2)(cmd, args)
	}
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		if *lost {
			return p.lost(ctx, c, args, *asJSON)
		}
		id := entryID{Namespace: args[0], Key: args[1]}
		return ask(ctx, p, c, historyRequest(id), *asJSON, func(states *api.Revisions) error {
			if states.Why != "" {
				fmt.Fprintf(p.Stderr, "this is not all: %s\n", term.Printable(states.Why))
			}
			return printHistory(p.Screen(), states)
		})
	})
	return cmd
}

// historyRequest asks for the states of an entry. The answer's ETag is that of the newest state.
func historyRequest(id entryID) api.Request {
	return api.Request{Path: api.Surface("revisions"), Query: entryQuery(id)}
}

// lost lists what has lost a conflict: in the namespace that args may name, or everywhere.
func (p *Program) lost(ctx context.Context, c *attach.Client, args []string, asJSON bool) error {
	namespace := ""
	if len(args) > 0 {
		namespace = args[0]
	}
	lost, err := c.Lost(ctx, namespace)
	switch {
	case err != nil:
		return err
	case asJSON:
		return term.EncodeJSON(p.Stdout, api.Lost{Lost: lost})
	}
	w, rows := p.Screen(), make([][]string, len(lost))
	for i, l := range lost {
		r := api.Revision{Revision: l.Revision, Seq: l.Seq, Host: l.Host, Here: l.Here}
		at := ""
		if l.LostAt != nil {
			at = term.Moment(w, term.Unix(*l.LostAt))
		}
		rows[i] = []string{l.Namespace, keyname.Format(l.Key), revisionName(&r), l.Op, term.Moment(w, term.Unix(l.UpdatedAt)), writerOf(&r), l.Author, at}
	}
	return term.Table(w, []string{"NAMESPACE", "KEY", "REVISION", "OP", "WRITTEN", "HOST", "AUTHOR", "LOST"}, rows)
}

func beginning(value string) string {
	runes := []rune(value)
	if len(runes) > shownValue {
		return string(runes[:shownValue]) + term.Ellipsis
	}
	return value
}

func stateText(w io.Writer, r *api.Revision) string {
	text := "a delete"
	if r.Value != nil {
		text = words.Plural(r.Bytes, "character")
	}
	return text + ", written " + term.Moment(w, term.Unix(r.UpdatedAt))
}

// revisionName returns a state's revision; without one, the name that it has here, or what the state is.
func revisionName(r *api.Revision) string {
	switch {
	case r.Revision != nil:
		return strconv.FormatUint(*r.Revision, 10)
	case r.Seq != nil:
		return writeName(r)
	}
	return r.State
}

func writeName(r *api.Revision) string { return "w" + strconv.FormatUint(*r.Seq, 10) }

func isNamed(r *api.Revision, name string) bool {
	return revisionName(r) == name || r.Seq != nil && writeName(r) == name
}

func printHistory(w io.Writer, states *api.Revisions) error {
	rows := make([][]string, 0, len(states.Revisions))
	for _, r := range states.Revisions {
		bytes := "deleted"
		if r.Value != nil {
			bytes = strconv.Itoa(r.Bytes)
		}
		rows = append(rows, []string{revisionName(&r), r.State, term.Moment(w, term.Unix(r.UpdatedAt)), writerOf(&r), r.Author, bytes, beginning(r.Text())})
		if r.Gap != "" {
			rows = append(rows, []string{"", r.Gap, "", "", "", "", "(the one before " + gapText(&r) + ")"})
		}
	}
	return term.Table(w, []string{"REVISION", "STATE", "WRITTEN", "HOST", "AUTHOR", "BYTES", "VALUE"}, rows)
}

// writerOf names the host that wrote a state; empty if unknown.
func writerOf(r *api.Revision) string {
	switch {
	case r.Here && r.Host == "":
		return "this"
	case r.Here:
		return r.Host + " (this)"
	}
	return r.Host
}

// gapText says why the state before one is missing.
func gapText(r *api.Revision) string {
	if r.Gap == "damaged" {
		return "is damaged"
	}
	return "was, or may have been, removed for room (history.disk)"
}

func newUndoCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "undo NAMESPACE [KEY]",
		Short:   "Write an earlier state of an entry, or of a namespace, anew",
		GroupID: groupMemory,
		Example: "  botwired undo my-agent user_name\n" +
			"  botwired undo my-agent user_name --to 17 --yes   # in a script\n" +
			"  botwired undo my-agent --before 10m   # as it was ten minutes ago",
		Long: "Write the state before the newest anew, or the one of the revision that botwired history shows. Where that is\n" +
			"a delete, the entry is deleted. If the state before was removed for room, botwired writes none: name an older one\n" +
			"with --to. It is a write as any other, and later than what it undoes: the next undo takes it back.\n\n" +
			"At a terminal, botwired shows what it would do, and asks. It writes only if nobody has written the entry since.\n\n" +
			"With --before and no KEY, every entry of the namespace becomes what it was then, as far as it is known here:\n" +
			"deleted entries come back, and new ones go. By default it undoes the one program of this host that has written; if\n" +
			"there were several, name one. Entries that others have written since are left and named, and so is an entry\n" +
			"that changes after you were asked. If the command is interrupted, run it again to continue.",
		Args: arguments(1, 2),
	}
	var all rewindFlags
	asJSON := JSONFlag(cmd)
	cmd.Flags().StringVar(&all.before, "before", "", "the `time` to go back to: 10m (ago), RFC 3339, or Unix seconds")
	cmd.Flags().StringVar(&all.author, "author", "", "with --before: only the writes of this program, as botwired history shows it")
	cmd.Flags().BoolVar(&all.all, "all-authors", false, "with --before: the writes of all programs and hosts")
	cmd.Flags().BoolVar(&all.dry, "dry-run", false, "with --before: only say what would be done")
	to := cmd.Flags().String("to", "", "the `revision` to go back to, instead of the one before the newest state")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		if n, err := strconv.ParseUint(strings.TrimPrefix(*to, "w"), 10, 64); cmd.Flags().Changed("to") && (err != nil || n == 0) {
			return Usagef("--to = %q: expected a revision, as botwired history shows it", *to)
		}
		all.byAuthor = cmd.Flags().Changed("author")
		switch ofAll := all.byAuthor || all.all || all.dry; {
		case len(args) == 1 && all.before == "", len(args) == 2 && (all.before != "" || ofAll), len(args) == 1 && *to != "":
			return Usagef("expected NAMESPACE KEY, or NAMESPACE and --before")
		case all.before != "" && !isTime(timeBefore(all.before)):
			return Usagef("--before = %q: expected how long ago, such as 10m, 1h or 1d, a time as in RFC 3339, such as 2026-11-27T09:30:00Z, or Unix seconds", all.before)
		case all.byAuthor && all.all:
			return Usagef("--author and --all-authors exclude each other")
		}
		if len(args) == 1 {
			if all.yes, all.asJSON = *yes, *asJSON; !all.dry {
				if err := p.mayAsk(*yes, "overwrites entries"); err != nil {
					return err
				}
			}
			return p.rewind(ctx, c, args[0], &all)
		}
		if err := p.mayAsk(*yes, "overwrites the entry"); err != nil {
			return err
		}
		id := entryID{Namespace: args[0], Key: args[1]}
		r := byHand("undo", entryQuery(id))
		if *to != "" {
			r.Query.Set("to", *to)
		}
		if !*yes {
			tag, err := toUndo(ctx, p, c, id, *to)
			if err != nil {
				return err
			}
			r.Header = http.Header{}
			wire.SetGiven(r.Header, "If-Match", tag)
		}
		err := ask(ctx, p, c, r, *asJSON, func(done *api.Undone) error {
			_, err := fmt.Fprintf(p.Stdout, "undone: %s is as in revision %s again: %s\n",
				term.Printable(id.String()), revisionName(&done.Now), term.Printable(stateText(p.Screen(), &done.Now)))
			return err
		})
		if api.IsRefused(err, http.StatusPreconditionFailed) {
			return fmt.Errorf("%s was written meanwhile, and nothing is undone: botwired history shows its states", term.Printable(id.String()))
		}
		return err
	})
	return cmd
}

// toUndo asks whether to undo, and returns the tag of the state that it asked about. If the daemon will
// refuse the undo, it does not ask.
func toUndo(ctx context.Context, p *Program, c *attach.Client, id entryID, to string) (tag string, err error) {
	var states api.Revisions
	asked := historyRequest(id)
	if to != "" {
		asked.Query.Set("to", to)
	}
	shown, err := c.Read(ctx, asked, &states)
	if err != nil {
		return "", err
	}
	tag = wire.Tag(shown.Header)
	earlier := stateToUndo(&states, to)
	if earlier == nil {
		return tag, nil
	}
	now, w := &states.Revisions[0], p.Screen()
	return tag, p.Confirm(ctx, fmt.Sprintf("%s is now %s. Make it revision %s again: %s?",
		id, stateText(w, now), revisionName(earlier), stateText(w, earlier)))
}

// stateToUndo returns the state that an undo brings back: that of revision to, or without one the state before
// the newest. It skips what upstream has refused, and what was never in force here. It returns nil if the daemon refuses
// the undo.
func stateToUndo(states *api.Revisions, to string) *api.Revision {
	for i := 1; i < len(states.Revisions); i++ { // the first one is the current state
		switch r := &states.Revisions[i]; {
		case to != "" && !isNamed(r, to), to == "" && (r.State == "dead" || r.Apart):
		case to == "" && (r.State == "unsealed" || states.Revisions[0].Gap != ""):
			return nil
		default:
			return r
		}
	}
	return nil
}

func newDiffCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "diff NAMESPACE KEY [FROM [TO]]",
		Short:   "Compare two states of an entry, line by line",
		GroupID: groupMemory,
		Example: "  botwired diff my-agent notes\n" +
			"  botwired diff my-agent notes 17      # what has changed since revision 17\n" +
			"  botwired diff my-agent notes 17 21",
		Long: "Compare two states of an entry, line by line. FROM and TO are revisions, as botwired history shows them. Without TO,\n" +
			"it is the present state, and without FROM the state before it. Values in JSON are compared with one field a line.",
		Args: arguments(2, 4),
	}
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		id := entryID{Namespace: args[0], Key: args[1]}
		var states api.Revisions
		if _, err := c.Read(ctx, historyRequest(id), &states); err != nil {
			return err
		}
		from, to, err := compared(&states, args[2:])
		if err != nil {
			return err
		}
		return printDiff(p.Screen(), p.PaletteOf(p.Stdout), from, to)
	})
	return cmd
}

func compared(states *api.Revisions, names []string) (from, to *api.Revision, err error) {
	to = &states.Revisions[0]
	if len(names) == 0 {
		before := slices.IndexFunc(states.Revisions[1:], func(r api.Revision) bool { return !r.Apart }) + 1
		switch {
		case before == 0:
			return nil, nil, fmt.Errorf("%s has no earlier state that is kept", term.Printable(entryID{states.Namespace, states.Key}.String()))
		case to.Gap != "":
			return nil, nil, fmt.Errorf("the state of %s before this one %s: name an older one, as botwired history shows it",
				term.Printable(entryID{states.Namespace, states.Key}.String()), gapText(to))
		}
		return &states.Revisions[before], to, nil
	}
	if from, err = named(states, names[0]); err == nil && len(names) > 1 {
		to, err = named(states, names[1])
	}
	return from, to, err
}

func named(states *api.Revisions, name string) (*api.Revision, error) {
	at := slices.IndexFunc(states.Revisions, func(r api.Revision) bool { return isNamed(&r, name) })
	if at >= 0 {
		return &states.Revisions[at], nil
	}
	why := "not kept, or never was: botwired history shows the others"
	if states.Why != "" {
		why = "not here: " + term.Printable(states.Why)
	}
	return nil, fmt.Errorf("revision %s of %s is %s", term.Printable(strconv.Quote(name)), term.Printable(entryID{states.Namespace, states.Key}.String()), why)
}

func printDiff(w io.Writer, colours term.Palette, from, to *api.Revision) error {
	old, now := from.Text(), to.Text()
	if a, ok := indented(old); ok {
		if b, ok := indented(now); ok {
			old, now = a, b
		}
	}
	title := func(r *api.Revision) string { return "revision " + revisionName(r) + ": " + stateText(w, r) }
	text := udiff.Unified(title(from), title(to), old, now)
	if text == "" {
		_, err := fmt.Fprintln(w, "the two states have the same value")
		return err
	}
	for line := range strings.Lines(text) {
		line = term.Printable(strings.TrimSuffix(line, "\n"))
		switch line[:1] {
		case "+":
			line = colours.Green(line)
		case "-":
			line = colours.Red(line)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func indented(text string) (string, bool) {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return "", false
	}
	return b.String() + "\n", true
}
