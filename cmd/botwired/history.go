package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/journal"
)

// shownValue is how many characters of a value the history shows.
const shownValue = 60

func newHistoryCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "history NAMESPACE KEY",
		Short:   "List the states that an entry has had",
		GroupID: groupMemory,
		Example: "  botwired history my-agent user_name\n" +
			"  botwired history my-agent user_name --json | jq -r '.revisions[1].value'",
		Long: "List the states that an entry has had, the newest first: its pending write, and those that upstream keeps.\n" +
			"The table has the beginning of each value, and --json all of it. HOST is \"this\" for a write of this daemon.\n\n" +
			"BotWire keeps the newest state only. NATS keeps as many as the bucket is made for (8).",
		Args: arguments(2, 2),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		body, err := askHistory(cmd.Context(), c, journal.ID{Namespace: args[0], Key: args[1]}, nil)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.stdout, body)
		}
		return printHistory(p.screen(), c, body)
	}
	return cmd
}

// askHistory asks for the states of an entry. etag, if not nil, is set to the tag of the newest.
func askHistory(ctx context.Context, c *client, id journal.ID, etag *string) ([]byte, error) {
	body, err := c.do(ctx, request{method: http.MethodGet, path: surface("revisions"), query: entryQuery(id), etag: etag})
	if isGone(err) {
		return nil, fmt.Errorf("key not found: %s", printable(id.String()))
	}
	return body, err
}

// entryState is a state of an entry, as the daemon tells of it.
type entryState struct {
	Revision cell    `json:"revision"` // "" of a pending write
	Op       cell    `json:"op"`
	Value    *string `json:"value"` // nil of a delete
	Bytes    cell    `json:"bytes"`
	Updated  cell    `json:"updated_at"`
	Host     cell    `json:"host"`
	Here     bool    `json:"here"`
}

type statesAnswer struct {
	Revisions []entryState `json:"revisions"`
}

// writer is empty if nobody knows it.
func (s *entryState) writer() string {
	if s.Here {
		return "this"
	}
	return string(s.Host)
}

// beginning is the value as far as a table has room for it.
func (s *entryState) beginning() string {
	if s.Value == nil {
		return ""
	}
	runes := []rune(*s.Value)
	if len(runes) > shownValue {
		return string(runes[:shownValue]) + ellipsis
	}
	return *s.Value
}

// text is the state in a sentence.
func (s *entryState) text(w io.Writer) string {
	text := "a delete"
	if s.Value != nil {
		text = plural(s.Bytes.number(), "character")
	}
	return text + ", written " + moment(w, s.Updated)
}

func printHistory(w io.Writer, c *client, body []byte) error {
	var answer statesAnswer
	if err := c.decode(body, &answer); err != nil {
		return err
	}
	rows := make([][]string, 0, len(answer.Revisions))
	for _, s := range answer.Revisions {
		bytes := ""
		if s.Value != nil {
			bytes = string(s.Bytes)
		}
		rows = append(rows, []string{s.Revision.or("pending"), moment(w, s.Updated), s.writer(), string(s.Op), bytes, s.beginning()})
	}
	return printTable(w, []string{"REVISION", "WRITTEN", "HOST", "OP", "BYTES", "VALUE"}, rows)
}

func newUndoCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "undo NAMESPACE KEY",
		Short:   "Write an earlier state of an entry anew",
		GroupID: groupMemory,
		Example: "  botwired undo my-agent user_name\n" +
			"  botwired undo my-agent user_name --to 17 --yes   # in a script",
		Long: "Write the state before the newest anew, or the one of the revision that botwired history shows. Where that is\n" +
			"a delete, the entry is deleted. It is a write as any other, and later than what it undoes: the next undo takes\n" +
			"it back.\n\n" +
			"At a terminal, botwired shows what it would do, and asks. It writes only if nobody has written the entry since.",
		Args: arguments(2, 2),
	}
	asJSON := jsonFlag(cmd)
	to := cmd.Flags().Uint64("to", 0, "the revision to go back to, instead of the one before the newest state")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("to") && *to == 0 {
			return usagef("--to = 0: expected a revision, as botwired history shows it")
		}
		if err := p.mayAsk(*yes, "overwrites the entry"); err != nil {
			return err
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		id := journal.ID{Namespace: args[0], Key: args[1]}
		r := request{method: http.MethodPost, path: surface("undo"), query: entryQuery(id)}
		if *to != 0 {
			r.query.Set("to", strconv.FormatUint(*to, 10))
		}
		if !*yes {
			tag, err := toUndo(cmd.Context(), p, c, id, *to)
			if err != nil {
				return err
			}
			r.header = http.Header{"If-Match": {tag}}
		}
		body, err := c.wait(cmd.Context(), r, byHandTime+flushGrace)
		switch {
		case isUnmet(err):
			return fmt.Errorf("%s was written meanwhile, and nothing is undone: botwired history shows its states", printable(id.String()))
		case err != nil:
			return err
		case *asJSON:
			return printJSON(p.stdout, body)
		}
		return reportUndone(p, c, id, body)
	}
	return cmd
}

func isUnmet(err error) bool {
	var no *statusError
	return errors.As(err, &no) && no.status == http.StatusPreconditionFailed
}

// toUndo asks whether to undo, and returns the tag of the state that the question was about. It
// asks nothing if the daemon is going to refuse.
func toUndo(ctx context.Context, p *process, c *client, id journal.ID, to uint64) (tag string, err error) {
	body, err := askHistory(ctx, c, id, &tag)
	if err != nil {
		return "", err
	}
	var answer statesAnswer
	if err := c.decode(body, &answer); err != nil {
		return "", err
	}
	earlier := answer.before(to)
	if earlier == nil {
		return tag, nil
	}
	now, w := &answer.Revisions[0], p.screen()
	return tag, p.confirm(ctx, fmt.Sprintf("%s is now %s. Make it revision %s again: %s?",
		id, now.text(w), earlier.Revision, earlier.text(w)))
}

// before is the state of a revision, or with 0 the one before the newest; nil if there is none.
func (a *statesAnswer) before(to uint64) *entryState {
	for i := 1; i < len(a.Revisions); i++ { // the first one is the state as it is
		if s := &a.Revisions[i]; to == 0 || string(s.Revision) == strconv.FormatUint(to, 10) {
			return s
		}
	}
	return nil
}

func reportUndone(p *process, c *client, id journal.ID, body []byte) error {
	var done struct{ Now entryState }
	if err := c.decode(body, &done); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "undone: %s is as in revision %s again: %s\n",
		printable(id.String()), printable(string(done.Now.Revision)), printable(done.Now.text(p.screen())))
	return err
}
