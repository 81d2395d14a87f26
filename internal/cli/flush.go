package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// flushWaits is for how many namespaces a flush that fails says why they wait.
const flushWaits = 3

// flushResult counts what became of the writes acknowledged before the flush.
type flushResult struct {
	Settled term.Cell `json:"settled"`
	Dead    term.Cell `json:"dead"`
	Pending term.Cell `json:"pending"`
	Waits   []struct {
		Namespace term.Cell `json:"namespace"`
		wait
	} `json:"waits"`
}

// wait is why something is not sent upstream now.
type wait struct {
	Why   term.Cell `json:"why"`
	Until term.Cell `json:"until"`
}

// String is empty for what waits for nothing.
func (w wait) String() string {
	if w.Until == "" {
		return string(w.Why)
	}
	return string(w.Why) + ", until " + w.Until.Moment()
}

// text is String for a screen, too.
func (w wait) text(to io.Writer) string {
	if w.Until == "" {
		return string(w.Why)
	}
	return string(w.Why) + ", " + term.Until(to, w.Until)
}

func newFlushCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "flush",
		Short:   "Carry every write so far upstream, and wait for it",
		GroupID: GroupDaily,
		Example: "  botwired flush\n" +
			"  botwired flush --namespace my-agent --timeout 5s",
		Long: "Carry every write acknowledged so far upstream at once, and wait until each is settled or dead.\n" +
			"If some are still pending after the timeout, flush fails, and botwired goes on with them.",
		Args: NoArguments,
	}
	asJSON := JSONFlag(cmd)
	namespace := namespaceFlag(cmd, "only the writes to this namespace")
	timeout := cmd.Flags().String("timeout", "30s", "how long to wait: a duration, or a number of seconds")
	now := cmd.Flags().Bool("now", false, "try at once what only waits for a time: throttled, paused, or after a failure")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		limit, err := parseTime("timeout", *timeout, api.MaxFlush)
		if err != nil {
			return err
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		stop := showPending(cmd.Context(), p, c, *namespace)
		body, err := c.Ask(cmd.Context(), api.FlushRequest(*namespace, limit, *now))
		stop()
		return p.reportFlush(body, err, limit, *asJSON)
	}
	return cmd
}

func (p *Program) reportFlush(body []byte, err error, timeout time.Duration, asJSON bool) error {
	var late *api.Refused
	if errors.As(err, &late) && late.Status == http.StatusGatewayTimeout {
		body = late.Body
	} else if err != nil {
		return err
	}
	var result flushResult
	if fault := json.Unmarshal(body, &result); fault != nil || result.Pending == "" {
		if err == nil {
			err = errors.New("the answer counts no pending writes, so it is not botwired's: another program listens there")
		}
		return err
	}
	if asJSON {
		if err := term.JSON(p.Stdout, body); err != nil {
			return err
		}
	}
	if late != nil {
		are := "are"
		if result.Pending == "1" {
			are = "is"
		}
		waits := ""
		for i := range min(len(result.Waits), flushWaits) {
			waits += fmt.Sprintf("; namespace %s: %s", result.Waits[i].Namespace, result.Waits[i])
		}
		if more := len(result.Waits) - flushWaits; more > 0 {
			waits += fmt.Sprintf("; more namespaces wait (%d): see botwired status", more)
		}
		return fmt.Errorf("%s %s still pending after %s (%s settled, %s dead); botwired goes on trying%s",
			words.Plural(result.Pending.Number(), "write"), are, config.FormatDuration(timeout), result.Settled.Or("0"), result.Dead.Or("0"), term.Printable(waits))
	}
	if asJSON {
		return nil
	}
	_, err = fmt.Fprintf(p.Stdout, "%s settled, %s dead\n", result.Settled.Or("0"), result.Dead.Or("0"))
	return err
}

// showPending is showProgress with the number of pending writes.
func showPending(ctx context.Context, p *Program, c *attach.Client, namespace string) (stop func()) {
	return p.ShowProgress(ctx, func(ctx context.Context) string {
		if pending := pendingNow(ctx, c, namespace); pending != "" {
			return string(pending) + " pending"
		}
		return ""
	})
}

// statusNow is empty if the daemon does not say: a line on the terminal is not worth an error.
func statusNow(ctx context.Context, c *attach.Client) (s status) {
	body, err := c.Ask(ctx, api.Request{Path: api.Surface("status")})
	if err != nil || json.Unmarshal(body, &s) != nil {
		return status{}
	}
	return s
}

// pendingNow returns "" if the daemon does not say.
func pendingNow(ctx context.Context, c *attach.Client, namespace string) term.Cell {
	s := statusNow(ctx, c)
	if namespace == "" || s.Pending == "" {
		return s.Pending
	}
	for _, n := range s.Namespaces {
		if string(n.Namespace) == namespace {
			return n.Pending
		}
	}
	return "0"
}
