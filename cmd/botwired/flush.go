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

// flushGrace is how much longer than the timeout the daemon may take to answer.
const flushGrace = 3 * time.Second

// flushWaits is for how many namespaces a flush that fails says why they wait.
const flushWaits = 3

// flushResult counts what became of the writes acknowledged before the flush.
type flushResult struct {
	Settled cell `json:"settled"`
	Dead    cell `json:"dead"`
	Pending cell `json:"pending"`
	Waits   []struct {
		Namespace cell `json:"namespace"`
		wait
	} `json:"waits"`
}

// wait is why something is not sent upstream now.
type wait struct {
	Why   cell `json:"why"`
	Until cell `json:"until"`
}

// String is empty for what waits for nothing.
func (w wait) String() string {
	if w.Until == "" {
		return string(w.Why)
	}
	return string(w.Why) + ", until " + w.Until.moment()
}

// text is String for a screen, too.
func (w wait) text(to io.Writer) string {
	if w.Until == "" {
		return string(w.Why)
	}
	return string(w.Why) + ", " + until(to, w.Until)
}

func newFlushCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "flush",
		Short:   "Carry every write so far upstream, and wait for it",
		GroupID: groupDaily,
		Example: "  botwired flush\n" +
			"  botwired flush --namespace my-agent --timeout 5s",
		Long: "Carry every write acknowledged so far upstream at once, and wait until each is settled or dead.\n" +
			"If some are still pending after the timeout, flush fails, and botwired goes on with them.",
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	namespace := namespaceFlag(cmd, "only the writes to this namespace")
	timeout := cmd.Flags().String("timeout", "30s", "how long to wait: a duration, or a number of seconds")
	now := cmd.Flags().Bool("now", false, "try at once what only waits for a time: throttled, paused, or after a failure")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		limit, err := parseTime("timeout", *timeout, maxTimeout)
		if err != nil {
			return err
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		stop := showPending(cmd.Context(), p, c, *namespace)
		body, err := flush(cmd.Context(), c, *namespace, limit, *now)
		stop()
		return p.reportFlush(body, err, limit, *asJSON)
	}
	return cmd
}

func flush(ctx context.Context, c *client, namespace string, timeout time.Duration, now bool) ([]byte, error) {
	query := url.Values{"timeout": {timeout.String()}}
	if namespace != "" {
		query.Set("namespace", namespace)
	}
	if now {
		query.Set("now", "true")
	}
	return c.wait(ctx, request{method: http.MethodPost, path: surface("flush"), query: query}, timeout+flushGrace)
}

func (p *process) reportFlush(body []byte, err error, timeout time.Duration, asJSON bool) error {
	var late *statusError
	if errors.As(err, &late) && late.status == http.StatusGatewayTimeout {
		body = late.body
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
		if err := printJSON(p.stdout, body); err != nil {
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
			plural(result.Pending.number(), "write"), are, config.FormatDuration(timeout), result.Settled.or("0"), result.Dead.or("0"), printable(waits))
	}
	if asJSON {
		return nil
	}
	_, err = fmt.Fprintf(p.stdout, "%s settled, %s dead\n", result.Settled.or("0"), result.Dead.or("0"))
	return err
}

// showProgress keeps a line on the terminal that says how far a command is, unless text is empty.
// Where there is no terminal it shows nothing. The returned function ends it and clears the line.
func (p *process) showProgress(ctx context.Context, text func(context.Context) string) (stop func()) {
	if !p.isTerminal(p.stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	tick, stopTicks := p.ticks()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			if line := text(ctx); line != "" {
				p.showLine(printable(line))
			}
		}
	}()
	return func() {
		cancel()
		<-done
		stopTicks()
		p.showLine("")
	}
}

// showPending is showProgress with the number of pending writes.
func showPending(ctx context.Context, p *process, c *client, namespace string) (stop func()) {
	return p.showProgress(ctx, func(ctx context.Context) string {
		if pending := pendingNow(ctx, c, namespace); pending != "" {
			return string(pending) + " pending"
		}
		return ""
	})
}

// statusNow is empty if the daemon does not say: a line on the terminal is not worth an error.
func statusNow(ctx context.Context, c *client) (s status) {
	body, err := c.do(ctx, request{method: http.MethodGet, path: surface("status")})
	if err != nil || json.Unmarshal(body, &s) != nil {
		return status{}
	}
	return s
}

// pendingNow returns "" if the daemon does not say.
func pendingNow(ctx context.Context, c *client, namespace string) cell {
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
