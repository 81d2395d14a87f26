package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

const (
	// listedPending is how many pending writes botwired lists by default, and maxListedPending is the
	// maximum.
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
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, _ []string) error {
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
		listed := &api.Pending{}
		answer, err := c.Read(ctx, r, listed)
		switch {
		case err != nil:
		case *asJSON:
			err = term.JSON(p.Stdout, answer.Body)
		default:
			err = printPending(p.Screen(), listed)
		}
		if err != nil || len(listed.Pending) < most {
			return err
		}
		return p.tellOfMorePending(ctx, c, len(listed.Pending), *namespace)
	})
	cmd.AddCommand(newPendingDropCommand(p, settings))
	return cmd
}

func (p *Program) tellOfMorePending(ctx context.Context, c *attach.Client, listed int, namespace string) error {
	all, err := pendingNow(ctx, c, namespace)
	if err != nil {
		return err
	}
	if all <= listed { // some have settled meanwhile
		return nil
	}
	more := ""
	if listed < maxListedPending {
		more = fmt.Sprintf(": --limit %d lists as many", min(all, maxListedPending))
	}
	_, err = fmt.Fprintf(p.Stderr, "%d of %s shown, the longest waiting first%s\n", listed, words.Plural(all, "pending write"), more)
	return err
}

// nextAttempt returns when a write is next tried: when its wait ends, if that is known.
func nextAttempt(w io.Writer, each *api.PendingWrite) string {
	due := each.NextAttempt
	if each.Waits != nil && each.Waits.Until != nil {
		due = each.Waits.Until
	}
	if due == nil {
		return ""
	}
	return term.Moment(w, *due)
}

func printPending(w io.Writer, listed *api.Pending) error {
	columns := []string{"SEQ", "NAMESPACE", "KEY", "OP", "AUTHOR", "BYTES", "WAITS SINCE", "ATTEMPTS", "NEXT ATTEMPT", "WHY"}
	rows := make([][]string, 0, len(listed.Pending))
	reasons := make(map[string]bool)
	for _, each := range listed.Pending {
		reasons[why(&each)] = true
		rows = append(rows, []string{strconv.FormatUint(each.Seq, 10), each.Namespace, each.Key, each.Op, each.Author, strconv.Itoa(each.Bytes),
			term.Moment(w, term.Unix(each.Since)), strconv.Itoa(each.Attempts), nextAttempt(w, &each), why(&each)})
	}
	if len(rows) < 2 || len(reasons) > 1 || reasons[""] {
		return term.Table(w, columns, rows)
	}
	last := len(columns) - 1
	for i := range rows {
		rows[i] = rows[i][:last]
	}
	err := term.Table(w, columns[:last], rows)
	if err == nil {
		_, err = fmt.Fprintf(w, "\nAll of them wait: %s\n", term.Printable(why(&listed.Pending[0])))
	}
	return err
}

// why returns why a write is still pending, as far as there is a reason.
func why(each *api.PendingWrite) string {
	if each.Waits != nil {
		return each.Waits.Why
	}
	return each.LastError
}
