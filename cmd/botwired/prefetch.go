package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
)

// prefetchStep is how often a prefetch shows how far it is.
const prefetchStep = time.Second

type prefetchResult struct {
	Keys     cell `json:"keys"`
	Fetched  cell `json:"fetched"`
	Left     cell `json:"left"`
	Complete cell `json:"complete"`
}

func newPrefetchCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "prefetch NAMESPACE",
		Short:   "Fetch all values of a namespace, so that they can be read while upstream is away",
		GroupID: groupMemory,
		Long: "Fetch all values of a namespace that are not known here yet, so that all of it can be read while upstream\n" +
			"is away. Upstream lists 1,000 keys of a namespace: of a larger one, prefetch fetches the newest. If the\n" +
			"time is up, prefetch fails, and botwired goes on with it. `prefetch: true` in namespaces keeps the values\n" +
			"of a namespace here while it is used.",
		Example: "  botwired prefetch my-agent\n" +
			"  botwired prefetch my-agent --timeout 30s   # how far it is after 30 s",
		Args: arguments(1, 1),
	}
	asJSON := jsonFlag(cmd)
	timeout := cmd.Flags().String("timeout", "10m", "how long to wait: a duration, or a number of seconds")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		limit, err := parseTime("timeout", *timeout, maxTimeout)
		if err != nil {
			return err
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		body, err := p.prefetch(cmd.Context(), c, args[0], limit)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.stdout, body)
		}
		return printPrefetched(p.screen(), c, args[0], body)
	}
	return cmd
}

// prefetch asks the daemon again until it has all values, or the time is up. On a terminal it shows
// how far the daemon is.
func (p *process) prefetch(ctx context.Context, c *client, namespace string, limit time.Duration) (body []byte, err error) {
	shows := p.isTerminal(p.stderr)
	step, end := min(prefetchStep, limit), time.Now().Add(limit)
	for {
		query := url.Values{"namespace": {namespace}, "timeout": {step.String()}}
		r := request{method: http.MethodPost, path: surface("prefetch"), query: query}
		body, err = c.wait(ctx, r, step+flushGrace)
		var late *statusError
		if !errors.As(err, &late) || late.status != http.StatusGatewayTimeout {
			break
		}
		var so prefetchResult
		if fault := json.Unmarshal(late.body, &so); fault != nil || so.Left == "" {
			break
		}
		if !time.Now().Before(end) {
			err = fmt.Errorf("%s still to be fetched after %s; botwired goes on with it", plural(so.Left.number(), "value"), config.FormatDuration(limit))
			break
		}
		if shows {
			p.showLine(fmt.Sprintf("%s of %s fetched", so.Fetched, plural(so.Fetched.number()+so.Left.number(), "value")))
		}
	}
	if shows {
		p.showLine("")
	}
	return body, err
}

func printPrefetched(w io.Writer, c *client, namespace string, body []byte) error {
	var result prefetchResult
	if err := c.decode(body, &result); err != nil {
		return err
	}
	if result.Keys == "0" {
		_, err := fmt.Fprintf(w, "upstream lists no keys of %s\n", printable(namespace))
		return err
	}
	more := ""
	if result.Complete != "true" {
		more = "; upstream has more keys than it lists, and the older ones were not fetched"
	}
	_, err := fmt.Fprintf(w, "%s can be read without upstream%s\n", plural(result.Keys.number(), "key"), more)
	return err
}
