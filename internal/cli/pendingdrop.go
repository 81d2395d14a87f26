package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

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
