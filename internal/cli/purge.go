package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
)

func newPurgeCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "purge NAMESPACE [KEY]",
		Short:   "Remove an entry or a namespace for good, its history and files included",
		GroupID: groupMemory,
		Example: "  botwired purge my-agent user_name\n" +
			"  botwired purge my-agent --yes   # all of it, in a script",
		Long: "Delete an entry, or all entries of a namespace, upstream; wait until upstream has confirmed it; and then remove\n" +
			"every version, copy, dead letter and receipt here, from the files too. Nothing brings it back. purge ends when\n" +
			"that is so, and says what it cannot reach. After a kill, say it again. Without --yes, botwired asks first.\n\n" +
			"While upstream is down, nothing is purged. With --local, purge leaves upstream as it is and removes what is\n" +
			"here: pending writes too, which are then lost.",
		Args: arguments(1, 2),
	}
	asJSON := JSONFlag(cmd)
	local := cmd.Flags().Bool("local", false, "leave upstream as it is, and drop the pending writes")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		if err := p.mayAsk(*yes, "removes for good"); err != nil {
			return err
		}
		query, what := url.Values{"namespace": {args[0]}}, "the namespace "+args[0]
		if len(args) == 2 {
			query.Set("key", args[1])
			what = entryID{args[0], args[1]}.String()
		}
		where := "upstream and here"
		if *local {
			where = "here, with its pending writes,"
			query.Set("local", "true")
		}
		if !*yes {
			if err := p.Confirm(ctx, fmt.Sprintf("Remove %s %s for good, with its history?", what, where)); err != nil {
				return err
			}
		}
		done, err := purgeUntilDone(ctx, p, c, query)
		if err != nil {
			return err
		}
		if *asJSON {
			return term.EncodeJSON(p.Stdout, done)
		}
		return printPurged(p, what, done)
	})
	return cmd
}

// purgeUntilDone repeats the request until the purge is done, or waits for something that takes long. The
// counts are those of all requests.
func purgeUntilDone(ctx context.Context, p *Program, c *attach.Client, query url.Values) (*api.Purged, error) {
	defer showPending(ctx, p, c, query.Get("namespace"))()
	for all := (api.Purged{}); ; {
		var now api.Purged
		if _, _, err := c.ReadProgress(ctx, byHand("purge", query), &now, func() bool { return now.AsOf != 0 }); err != nil {
			return nil, err
		}
		now.Deleted += all.Deleted
		now.Dropped += all.Dropped
		now.Removed.Copies += all.Removed.Copies
		now.Removed.Versions += all.Removed.Versions
		now.Removed.DeadLetters += all.Removed.DeadLetters
		now.Removed.Receipts += all.Removed.Receipts
		switch {
		case now.Done:
			return &now, nil
		case now.Waits != nil:
			return nil, fmt.Errorf("not purged yet: %s (%s). Say it again when they are sent", now.Why, waitText(io.Discard, now.Waits))
		}
		all = now
		query.Set("as_of", strconv.FormatUint(now.AsOf, 10))
	}
}

func printPurged(p *Program, what string, done *api.Purged) error {
	r := &done.Removed
	text := fmt.Sprintf("purged: %s. Deleted upstream: %d; removed here: copies %d, versions %d, dead letters %d, receipts %d\n",
		term.Printable(what), done.Deleted, r.Copies, r.Versions, r.DeadLetters, r.Receipts)
	if done.Dropped > 0 {
		text += fmt.Sprintf("pending writes dropped: %d\n", done.Dropped)
	}
	if done.Pending > 0 {
		text += fmt.Sprintf("written meanwhile, and left: %d\n", done.Pending)
	}
	for _, place := range done.NotReached {
		text += fmt.Sprintf("not reached: %s\n", term.Printable(place))
	}
	_, err := io.WriteString(p.Stdout, text)
	return err
}
