package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

const flushWaits = 3

// flushTimeout outlasts, by default, a request that hangs (upstream.timeout) and the window after it
// (upstream.late_window), and leaves 20 s to send what waited for that.
const flushTimeout = "1m"

func newFlushCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "flush",
		Short:   "Carry every write so far upstream, and wait for it",
		GroupID: GroupDaily,
		Example: "  botwired flush\n" +
			"  botwired flush --namespace my-agent --timeout 5s",
		Long: "Carry every write acknowledged so far upstream at once, and wait until each is settled or dead.\n" +
			"If some are still pending after the timeout, or when the daemon is stopped, flush fails.\n" +
			"botwired keeps them and goes on. A write whose request upstream has not answered waits for upstream.late_window:\n" +
			"the default timeout outlasts the defaults of that and of upstream.timeout. If you set longer ones, set it, too.",
		Args: NoArguments,
	}
	asJSON := JSONFlag(cmd)
	namespace := namespaceFlag(cmd, "only the writes to this namespace")
	timeout := cmd.Flags().String("timeout", flushTimeout, "how long to wait: a duration, or a number of seconds")
	now := cmd.Flags().Bool("now", false, "try at once what only waits for a time: throttled, paused, or after a failure, but not within upstream.late_window")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, _ []string) error {
		limit, err := parseTime("timeout", *timeout, api.MaxFlush)
		if err != nil {
			return err
		}
		began := time.Now()
		stop := showPending(ctx, p, c, *namespace)
		result, err := c.Flush(ctx, *namespace, limit, *now)
		stop()
		if err == nil && *asJSON {
			err = term.EncodeJSON(p.Stdout, result)
		}
		switch {
		case err != nil:
			return err
		case result.Pending > 0:
			return stillPending(result, time.Since(began))
		case *asJSON:
			return nil
		}
		_, err = fmt.Fprintf(p.Stdout, "%d settled, %d dead\n", result.Settled, result.Dead)
		return err
	})
	return cmd
}

func stillPending(result *api.Flushed, took time.Duration) error {
	are, them, waits := words.ByNumber(result.Pending, "is", "are"), words.ByNumber(result.Pending, "it", "them"), ""
	for _, w := range result.Waits[:min(len(result.Waits), flushWaits)] {
		waits += fmt.Sprintf("; namespace %s: %s", w.Namespace, waitText(io.Discard, &w.Wait))
	}
	if more := len(result.Waits) - flushWaits; more > 0 {
		waits += fmt.Sprintf("; more namespaces wait (%d): see botwired status", more)
	}
	return fmt.Errorf("%s %s still pending after %s (%d settled, %d dead); botwired keeps %s and goes on%s",
		words.Plural(result.Pending, "write"), are, words.Duration(took), result.Settled, result.Dead, them, term.Printable(waits))
}

func showPending(ctx context.Context, p *Program, c *attach.Client, namespace string) (stop func()) {
	return p.ShowProgress(ctx, func(ctx context.Context) string {
		pending, err := pendingNow(ctx, c, namespace)
		if err != nil {
			return "" // an error here must not fail the flush
		}
		return strconv.Itoa(pending) + " pending"
	})
}

// pendingNow returns how many writes are pending: in a namespace, or in all if it is "".
func pendingNow(ctx context.Context, c *attach.Client, namespace string) (int, error) {
	s, err := c.Status(ctx)
	switch {
	case err != nil:
		return 0, err
	case namespace == "":
		return s.Pending, nil
	}
	for _, n := range s.Namespaces {
		if n.Namespace == namespace {
			return n.Pending, nil
		}
	}
	return 0, nil
}
