package main

import (
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func newPendingCommand(settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pending",
		Short: "List the writes that upstream has not confirmed yet",
		Args:  noArguments,
	}
	asJSON := jsonFlag(cmd)
	limit := limitFlag(cmd)
	namespace := cmd.Flags().String("namespace", "", "only those of this namespace")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query, err := limit()
		if err != nil {
			return err
		}
		if *namespace != "" {
			query.Set("namespace", *namespace)
		}
		r := request{method: http.MethodGet, path: surface("pending"), query: query}
		return settings.show(cmd.Context(), r, *asJSON, printPending)
	}
	return cmd
}

func printPending(w io.Writer, c *client, body []byte) error {
	var answer struct {
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
	if err := c.decode(body, &answer); err != nil {
		return err
	}
	rows := make([][]string, 0, len(answer.Pending))
	for _, w := range answer.Pending {
		rows = append(rows, []string{string(w.Seq), string(w.Namespace), string(w.Key), string(w.Op), string(w.Bytes),
			w.WrittenAt.moment(), string(w.Attempts), w.NextAttempt.moment(), string(w.LastError), w.Waits.String()})
	}
	columns := []string{"SEQ", "NAMESPACE", "KEY", "OP", "BYTES", "WRITTEN", "ATTEMPTS", "NEXT ATTEMPT", "LAST ERROR", "WAITS"}
	return printTable(w, columns, rows)
}
