package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// shownValue is how many characters of a value the history shows.
const shownValue = 60

func newHistoryCommand(p *Program, settings *Settings) *cobra.Command {
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
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		answer, err := askHistory(cmd.Context(), c, entryID{Namespace: args[0], Key: args[1]})
		if err != nil {
			return err
		}
		if *asJSON {
			return term.JSON(p.Stdout, answer.Body)
		}
		return printHistory(p.Screen(), c, answer.Body)
	}
	return cmd
}

// askHistory asks for the states of an entry. The tag of the answer is that of the newest.
func askHistory(ctx context.Context, c *attach.Client, id entryID) (*api.Answer, error) {
	answer, err := c.Do(ctx, api.Request{Path: api.Surface("revisions"), Query: entryQuery(id)})
	if isGone(err) {
		return nil, fmt.Errorf("key not found: %s", term.Printable(id.String()))
	}
	return answer, err
}

// entryState is a state of an entry, as the daemon tells of it.
type entryState struct {
	Revision term.Cell `json:"revision"` // "" of a pending write
	Op       term.Cell `json:"op"`
	Value    *string   `json:"value"` // nil of a delete
	Bytes    term.Cell `json:"bytes"`
	Updated  term.Cell `json:"updated_at"`
	Host     term.Cell `json:"host"`
	Here     bool      `json:"here"`
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
		return string(runes[:shownValue]) + term.Ellipsis
	}
	return *s.Value
}

// text is the state in a sentence.
func (s *entryState) text(w io.Writer) string {
	text := "a delete"
	if s.Value != nil {
		text = words.Plural(s.Bytes.Number(), "character")
	}
	return text + ", written " + term.Moment(w, s.Updated)
}

func printHistory(w io.Writer, c *attach.Client, body []byte) error {
	var answer statesAnswer
	if err := c.Decode(body, &answer); err != nil {
		return err
	}
	rows := make([][]string, 0, len(answer.Revisions))
	for _, s := range answer.Revisions {
		bytes := ""
		if s.Value != nil {
			bytes = string(s.Bytes)
		}
		rows = append(rows, []string{s.Revision.Or("pending"), term.Moment(w, s.Updated), s.writer(), string(s.Op), bytes, s.beginning()})
	}
	return term.Table(w, []string{"REVISION", "WRITTEN", "HOST", "OP", "BYTES", "VALUE"}, rows)
}

func newUndoCommand(p *Program, settings *Settings) *cobra.Command {
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
	asJSON := JSONFlag(cmd)
	to := cmd.Flags().Uint64("to", 0, "the revision to go back to, instead of the one before the newest state")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("to") && *to == 0 {
			return Usagef("--to = 0: expected a revision, as botwired history shows it")
		}
		if err := p.mayAsk(*yes, "overwrites the entry"); err != nil {
			return err
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		id := entryID{Namespace: args[0], Key: args[1]}
		r := byHand("undo", entryQuery(id))
		if *to != 0 {
			r.Query.Set("to", strconv.FormatUint(*to, 10))
		}
		if !*yes {
			tag, err := toUndo(cmd.Context(), p, c, id, *to)
			if err != nil {
				return err
			}
			r.Header = http.Header{"If-Match": {tag}}
		}
		body, err := c.Ask(cmd.Context(), r)
		switch {
		case isUnmet(err):
			return fmt.Errorf("%s was written meanwhile, and nothing is undone: botwired history shows its states", term.Printable(id.String()))
		case err != nil:
			return err
		case *asJSON:
			return term.JSON(p.Stdout, body)
		}
		return reportUndone(p, c, id, body)
	}
	return cmd
}

func isUnmet(err error) bool {
	var no *api.Refused
	return errors.As(err, &no) && no.Status == http.StatusPreconditionFailed
}

// toUndo asks whether to undo, and returns the tag of the state that the question was about. It
// asks nothing if the daemon is going to refuse.
func toUndo(ctx context.Context, p *Program, c *attach.Client, id entryID, to uint64) (tag string, err error) {
	shown, err := askHistory(ctx, c, id)
	if err != nil {
		return "", err
	}
	tag = shown.Header.Get("ETag")
	var answer statesAnswer
	if err := c.Decode(shown.Body, &answer); err != nil {
		return "", err
	}
	earlier := answer.before(to)
	if earlier == nil {
		return tag, nil
	}
	now, w := &answer.Revisions[0], p.Screen()
	return tag, p.Confirm(ctx, fmt.Sprintf("%s is now %s. Make it revision %s again: %s?",
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

func reportUndone(p *Program, c *attach.Client, id entryID, body []byte) error {
	var done struct{ Now entryState }
	if err := c.Decode(body, &done); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Stdout, "undone: %s is as in revision %s again: %s\n",
		term.Printable(id.String()), term.Printable(string(done.Now.Revision)), term.Printable(done.Now.text(p.Screen())))
	return err
}
