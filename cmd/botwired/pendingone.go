package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/journal"
)

// byHandTime is how long a person waits for the daemon to carry out a decision. A request of the entry that is
// under way ends first.
const byHandTime = time.Minute

func entryQuery(id journal.ID) url.Values {
	return url.Values{"namespace": {id.Namespace}, "key": {id.Key}}
}

func noPendingWrite(id journal.ID) error {
	return fmt.Errorf("no write to %s is pending: botwired pending lists those that are", printable(id.String()))
}

func newPendingDropCommand(p *process, settings *settingFlags) *cobra.Command {
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
	asJSON := jsonFlag(cmd)
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := p.mayAsk(*yes, "takes an acknowledged write back"); err != nil {
			return err
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		id := journal.ID{Namespace: args[0], Key: args[1]}
		query := entryQuery(id)
		if !*yes {
			seq, err := p.toDrop(cmd.Context(), c, id)
			if err != nil {
				return err
			}
			query.Set("seq", seq)
		}
		body, err := c.wait(cmd.Context(), request{method: http.MethodPost, path: surface("pending", "drop"), query: query}, byHandTime+flushGrace)
		switch {
		case isMissing(err):
			return noPendingWrite(id)
		case err != nil:
			return err
		case *asJSON:
			return printJSON(p.stdout, body)
		}
		var dropped struct {
			ID cell `json:"id"`
		}
		if err := c.decode(body, &dropped); err != nil {
			return err
		}
		letter := printable(string(dropped.ID))
		_, err = fmt.Fprintf(p.stdout, "dropped: it is dead letter %s now; botwired dead-letters retry %s brings it back\n", letter, letter)
		return err
	}
	return cmd
}

// toDrop asks whether to drop the pending write of an entry, and returns its number: a newer
// one, which nobody was asked about, stays.
func (p *process) toDrop(ctx context.Context, c *client, id journal.ID) (seq string, err error) {
	query := url.Values{"namespace": {id.Namespace}, "limit": {fmt.Sprint(maxListedPending)}}
	body, err := c.do(ctx, request{method: http.MethodGet, path: surface("pending"), query: query})
	if err != nil {
		return "", err
	}
	var listed struct {
		Pending []struct {
			Seq   json.Number `json:"seq"`
			Key   string      `json:"key"`
			Op    string      `json:"op"`
			Bytes int         `json:"bytes"`
		} `json:"pending"`
	}
	if err := c.decode(body, &listed); err != nil {
		return "", err
	}
	for _, w := range listed.Pending {
		if w.Key != id.Key {
			continue
		}
		return w.Seq.String(), p.confirm(ctx, fmt.Sprintf("Drop write %s to %s (%s, %s)?", w.Seq, id, w.Op, plural(w.Bytes, "byte")))
	}
	if len(listed.Pending) == maxListedPending {
		return "", fmt.Errorf("%s is not among the %d writes that have waited longest: say --yes to drop its pending write without a question",
			printable(id.String()), maxListedPending)
	}
	return "", noPendingWrite(id)
}
