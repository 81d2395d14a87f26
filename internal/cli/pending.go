package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

const (
	// listedPending is how many pending writes botwired lists unless it is asked for another
	// number, and maxListedPending the most that it lists.
	listedPending    = 100
	maxListedPending = 10_000
)

func newPendingCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pending",
		Short:   "List the writes that upstream has not confirmed yet",
		GroupID: GroupDaily,
		Example: "  botwired pending\n" +
			"  botwired pending --namespace my-agent --limit 1000",
		Long: "List the writes that upstream has not confirmed yet, the longest waiting first. If there are more\n" +
			"than it lists, it says so on standard error.",
		Args: NoArguments,
	}
	asJSON := JSONFlag(cmd)
	limit := limitFlag(cmd, listedPending, maxListedPending)
	namespace := namespaceFlag(cmd, "only those of this namespace")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query, err := limit()
		if err != nil {
			return err
		}
		most, err := cmd.Flags().GetInt("limit")
		if err != nil {
			return err
		}
		if *namespace != "" {
			query.Set("namespace", *namespace)
		}
		r := api.Request{Path: api.Surface("pending"), Query: query}
		print := printPending
		if *asJSON {
			print = func(w io.Writer, _ *attach.Client, body []byte) error { return term.JSON(w, body) }
		}
		return settings.show(cmd.Context(), r, func(w io.Writer, c *attach.Client, body []byte) error {
			if err := print(w, c, body); err != nil {
				return err
			}
			return settings.process.tellOfMorePending(cmd.Context(), c, body, *namespace, most)
		})
	}
	cmd.AddCommand(newPendingDropCommand(p, settings))
	return cmd
}

type pendingAnswer struct {
	Pending []struct {
		Seq         term.Cell `json:"seq"`
		Namespace   term.Cell `json:"namespace"`
		Key         term.Cell `json:"key"`
		Op          term.Cell `json:"op"`
		Bytes       term.Cell `json:"bytes"`
		WrittenAt   term.Cell `json:"written_at"`
		Attempts    term.Cell `json:"attempts"`
		NextAttempt term.Cell `json:"next_attempt_at"`
		LastError   term.Cell `json:"last_error"`
		Waits       wait      `json:"waits"`
	} `json:"pending"`
}

// tellOfMorePending says on stderr how many writes are pending if the list ends at its limit,
// most, and lacks some.
func (p *Program) tellOfMorePending(ctx context.Context, c *attach.Client, body []byte, namespace string, most int) error {
	var answer pendingAnswer
	if err := c.Decode(body, &answer); err != nil {
		return err
	}
	listed := len(answer.Pending)
	if listed < most {
		return nil
	}
	all := pendingNow(ctx, c, namespace).Number()
	if all <= listed {
		return nil // upstream may have taken some meanwhile
	}
	more := ""
	if listed < maxListedPending {
		more = fmt.Sprintf(": --limit %d lists as many", min(all, maxListedPending))
	}
	_, err := fmt.Fprintf(p.Stderr, "%d of %s shown, the longest waiting first%s\n", listed, words.Plural(all, "pending write"), more)
	return err
}

// nextAttempt is when the write is tried next: at the end of what it waits for, if that is known.
func nextAttempt(w io.Writer, due term.Cell, waits wait) string {
	if waits.Until != "" {
		due = waits.Until
	}
	return term.Moment(w, due)
}

func printPending(w io.Writer, c *attach.Client, body []byte) error {
	var answer pendingAnswer
	if err := c.Decode(body, &answer); err != nil {
		return err
	}
	rows := make([][]string, 0, len(answer.Pending))
	for _, each := range answer.Pending {
		rows = append(rows, []string{string(each.Seq), string(each.Namespace), string(each.Key), string(each.Op), string(each.Bytes),
			term.Moment(w, each.WrittenAt), string(each.Attempts), nextAttempt(w, each.NextAttempt, each.Waits), string(each.LastError), string(each.Waits.Why)})
	}
	columns := []string{"SEQ", "NAMESPACE", "KEY", "OP", "BYTES", "WRITTEN", "ATTEMPTS", "NEXT ATTEMPT", "LAST ERROR", "WAITS"}
	return term.Table(w, columns, rows)
}
