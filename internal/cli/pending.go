package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/keyname"
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
		most, err := limit()
		if err != nil {
			return err
		}
		query := url.Values{"limit": {strconv.Itoa(most)}}
		if *namespace != "" {
			query.Set("namespace", *namespace)
		}
		r := api.Request{Path: api.Surface("pending"), Query: query}
		listed, err := askFor(ctx, p, c, r, *asJSON, func(l *api.Pending) error { return printPending(p.Screen(), l) })
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
		rows = append(rows, []string{strconv.FormatUint(each.Seq, 10), each.Namespace, keyname.Format(each.Key), each.Op, each.Author, strconv.Itoa(each.Bytes),
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

func why(each *api.PendingWrite) string {
	if each.Waits != nil {
		return each.Waits.Why
	}
	return each.LastError
}

func noPendingWrite(id entryID) error {
	return fmt.Errorf("no write to %s is pending: botwired pending lists those that are", term.Printable(id.String()))
}

func newPendingDropCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drop NAMESPACE KEY",
		Short: "Make one pending write a dead letter",
		Example: "  botwired pending drop my-agent user_name\n" +
			"  botwired pending drop my-agent user_name --yes   # in a script",
		Long: "Make the pending write to one entry a dead letter: it is not sent any more, and readers see what was there\n" +
			"before it. botwired dead-letters retry ID brings it back. If upstream may have carried the write out already,\n" +
			"readers ask upstream. Without --yes, botwired asks first.",
		Args: arguments(2, 2),
	}
	asJSON := JSONFlag(cmd)
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		if err := p.mayAsk(*yes, "takes an acknowledged write back"); err != nil {
			return err
		}
		id := entryID{Namespace: args[0], Key: args[1]}
		query := entryQuery(id)
		if !*yes {
			seq, err := p.toDrop(ctx, c, id)
			if err != nil {
				return err
			}
			query.Set("seq", seq)
		}
		err := ask(ctx, p, c, byHand("pending/drop", query), *asJSON, func(dropped *api.Dropped) error {
			letter := term.Printable(dropped.ID)
			_, err := fmt.Fprintf(p.Stdout, "dropped: it is dead letter %s now; botwired dead-letters retry %s brings it back\n", letter, letter)
			return err
		})
		if api.IsRefused(err, http.StatusNotFound) {
			return noPendingWrite(id)
		}
		return err
	})
	return cmd
}

// toDrop asks whether to drop the pending write of an entry, and returns its number. A newer write,
// which the user was not asked about, then stays.
func (p *Program) toDrop(ctx context.Context, c *attach.Client, id entryID) (seq string, err error) {
	query := url.Values{"namespace": {id.Namespace}, "limit": {fmt.Sprint(maxListedPending)}}
	var listed api.Pending
	if _, err := c.Read(ctx, api.Request{Path: api.Surface("pending"), Query: query}, &listed); err != nil {
		return "", err
	}
	for _, w := range listed.Pending {
		if w.Key != id.Key {
			continue
		}
		return strconv.FormatUint(w.Seq, 10), p.Confirm(ctx, fmt.Sprintf("Drop write %d to %s (%s, %s)?", w.Seq, id, w.Op, words.Plural(w.Bytes, "byte")))
	}
	if len(listed.Pending) == maxListedPending {
		return "", fmt.Errorf("%s is not among the %d writes that have waited longest: say --yes to drop its pending write without a question",
			term.Printable(id.String()), maxListedPending)
	}
	return "", noPendingWrite(id)
}
