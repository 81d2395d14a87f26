package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/journal"
)

// byHandTime is how long a person waits for one write: for a request of the entry that is under
// way, and for the one that is made.
const byHandTime = time.Minute

func newPendingSendCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send NAMESPACE KEY",
		Short: "Send one pending write now",
		Example: "  botwired pending send my-agent user_name\n" +
			"  botwired pending send my-agent user_name --json",
		Long: "Send the pending write to one entry now, once, and say what becomes of it: without the linger, before\n" +
			"the others, and also while its namespace is throttled or paused. A write in doubt goes on waiting, and\n" +
			"nothing goes beyond the quota.",
		Args: arguments(2, 2),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		id := journal.ID{Namespace: args[0], Key: args[1]}
		r := request{method: http.MethodPost, path: surface("pending", "send"), query: entryQuery(id)}
		body, err := c.wait(cmd.Context(), r, byHandTime+flushGrace)
		var late *statusError
		switch {
		case errors.As(err, &late) && late.status == http.StatusGatewayTimeout:
			body = late.body
		case isMissing(err):
			return noPendingWrite(id)
		case err != nil:
			return err
		}
		return p.reportSent(c, id, body, *asJSON)
	}
	return cmd
}

func entryQuery(id journal.ID) url.Values {
	return url.Values{"namespace": {id.Namespace}, "key": {id.Key}}
}

func noPendingWrite(id journal.ID) error {
	return fmt.Errorf("no write to %s is pending: botwired pending lists those that are", printable(id.String()))
}

func (p *process) reportSent(c *client, id journal.ID, body []byte, asJSON bool) error {
	var sent struct {
		Seq   cell `json:"seq"`
		State cell `json:"state"`
		Waits wait `json:"waits"`
	}
	if err := c.decode(body, &sent); err != nil {
		return err
	}
	if asJSON {
		if err := printJSON(p.stdout, body); err != nil {
			return err
		}
	}
	switch what := fmt.Sprintf("write %s to %s", sent.Seq, id); sent.State {
	case "settled":
		if asJSON {
			return nil
		}
		_, err := fmt.Fprintf(p.stdout, "%s is settled\n", printable(what))
		return err
	case "dead":
		return fmt.Errorf("%s is a dead letter now: botwired dead-letters says why", printable(what))
	default:
		why := ""
		if sent.Waits.Why != "" {
			why = "; " + sent.Waits.String()
		}
		return fmt.Errorf("%s is still pending, and botwired goes on trying%s", printable(what), printable(why))
	}
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
		if !*yes && (!p.isTerminal(p.stdin) || !p.isTerminal(p.stderr)) {
			return usagef("this takes an acknowledged write back, and there is no terminal to ask at: expected --yes too")
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
		agreed, err := p.confirm(ctx, printable(fmt.Sprintf("Drop write %s to %s (%s, %s)?", w.Seq, id, w.Op, plural(w.Bytes, "byte"))))
		if err == nil && !agreed {
			err = errNothingDropped
		}
		return w.Seq.String(), err
	}
	if len(listed.Pending) == maxListedPending {
		return "", fmt.Errorf("%s is not among the %d writes that have waited longest: say --yes to drop its pending write without a question",
			printable(id.String()), maxListedPending)
	}
	return "", noPendingWrite(id)
}

var errNothingDropped = errors.New("nothing is dropped")
