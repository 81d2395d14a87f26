package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

const (
	// listedPending is how many pending writes botwired lists unless it is asked for another
	// number, and maxListedPending the most that it lists.
	listedPending    = 100
	maxListedPending = 10_000
)

func newPendingCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pending",
		Short:   "List the writes that upstream has not confirmed yet",
		GroupID: groupDaily,
		Example: "  botwired pending\n" +
			"  botwired pending --namespace my-agent --limit 1000",
		Long: "List the writes that upstream has not confirmed yet, the longest waiting first. If there are more\n" +
			"than it lists, it says so on standard error.",
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
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
		r := request{method: http.MethodGet, path: surface("pending"), query: query}
		print := printPending
		if *asJSON {
			print = func(w io.Writer, _ *client, body []byte) error { return printJSON(w, body) }
		}
		return settings.show(cmd.Context(), r, func(w io.Writer, c *client, body []byte) error {
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
		Seq         cell `json:"seq"`
		Namespace   cell `json:"namespace"`
		Key         cell `json:"key"`
		Op          cell `json:"op"`
		Bytes       cell `json:"bytes"`
		WrittenAt   cell `json:"written_at"`
		Attempts    cell `json:"attempts"`
		NextAttempt cell `json:"next_attempt_at"`
		LastError   cell `json:"last_error"`
		Waits       wait `json:"waits"`
	} `json:"pending"`
}

// tellOfMorePending says on stderr how many writes are pending if the list ends at its limit,
// most, and lacks some.
func (p *process) tellOfMorePending(ctx context.Context, c *client, body []byte, namespace string, most int) error {
	var answer pendingAnswer
	if err := c.decode(body, &answer); err != nil {
		return err
	}
	listed := len(answer.Pending)
	if listed < most {
		return nil
	}
	all := pendingNow(ctx, c, namespace).number()
	if all <= listed {
		return nil // upstream may have taken some meanwhile
	}
	more := ""
	if listed < maxListedPending {
		more = fmt.Sprintf(": --limit %d lists as many", min(all, maxListedPending))
	}
	_, err := fmt.Fprintf(p.stderr, "%d of %s shown, the longest waiting first%s\n", listed, plural(all, "pending write"), more)
	return err
}

// nextAttempt is when the write is tried next: at the end of what it waits for, if that is known.
func nextAttempt(w io.Writer, due cell, waits wait) string {
	if waits.Until != "" {
		due = waits.Until
	}
	return moment(w, due)
}

func printPending(w io.Writer, c *client, body []byte) error {
	var answer pendingAnswer
	if err := c.decode(body, &answer); err != nil {
		return err
	}
	rows := make([][]string, 0, len(answer.Pending))
	for _, each := range answer.Pending {
		rows = append(rows, []string{string(each.Seq), string(each.Namespace), string(each.Key), string(each.Op), string(each.Bytes),
			moment(w, each.WrittenAt), string(each.Attempts), nextAttempt(w, each.NextAttempt, each.Waits), string(each.LastError), string(each.Waits.Why)})
	}
	columns := []string{"SEQ", "NAMESPACE", "KEY", "OP", "BYTES", "WRITTEN", "ATTEMPTS", "NEXT ATTEMPT", "LAST ERROR", "WAITS"}
	return printTable(w, columns, rows)
}
