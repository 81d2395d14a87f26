package cli

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

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// restoreStep is how long one request waits for the restoration to end. Then the command shows the
// progress.
const restoreStep = 2 * time.Second

func progressOf(r *api.Restoration) string {
	text := fmt.Sprintf("%d restored, upstream lacks %d", r.Restored, r.Left)
	if r.Waits != nil {
		text += "; " + waitText(io.Discard, r.Waits)
	}
	return text
}

func newRestoreCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "restore NAMESPACE | --all",
		Short:   "Give upstream back what it has lost of a namespace, or of all",
		GroupID: groupMemory,
		Long: "Give upstream back the entries of a namespace that it no longer holds: those of which the daemon\n" +
			"has a copy. A value that upstream holds after all stays. The daemon keeps to the quota, and goes on when\n" +
			"this command is interrupted, and after a restart. --stop ends it; what is pending by then still goes.\n" +
			"Of a namespace without data loss, nothing is restored.\n\n" +
			"With --all and no namespace, upstream gets back every namespace with data loss. If the daemon has stopped asking a NATS\n" +
			"bucket, as it was made anew or has gone back, the daemon goes on with the bucket as it is now, and gives it\n" +
			"every entry of which it has a copy. If the bucket is gone, the daemon makes it, or with upstream.nats.create: false\n" +
			"waits for it: put a backup back first.",
		Example: "  botwired restore my-agent\n" +
			"  botwired restore my-agent --stop\n" +
			"  botwired restore --all",
		Args: arguments(0, 1),
	}
	asJSON := JSONFlag(cmd)
	stop := cmd.Flags().Bool("stop", false, "end the restoration")
	all := cmd.Flags().Bool("all", false, "restore all namespaces with data loss, and a bucket that has lost its writes")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		switch {
		case *all && (len(args) > 0 || *stop):
			return Usagef("--all is for every namespace: leave NAMESPACE and --stop out")
		case !*all && len(args) == 0:
			return Usagef("expected NAMESPACE, or --all for every one with data loss")
		}
		if *all {
			return restoreAll(ctx, p, c, *asJSON)
		}
		so, body, err := p.restore(ctx, c, args[0], *stop)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return term.JSON(p.Stdout, body)
		}
		return p.reportRestore(so)
	})
	return cmd
}

// restore repeats the request until the restoration ends, and shows the progress meanwhile.
func (p *Program) restore(ctx context.Context, c *attach.Client, namespace string, stop bool) (so *api.Restoration, body []byte, err error) {
	query := url.Values{"namespace": {namespace}, "timeout": {restoreStep.String()}}
	if stop {
		query.Set("stop", "true")
	}
	r := api.Request{Method: http.MethodPost, Path: api.Surface("restore"), Query: query, Within: restoreStep + byHandGrace}
	defer p.ShowLine("")
	for {
		so = &api.Restoration{}
		answer, err := c.Read(ctx, r, so)
		if err == nil {
			return so, answer.Body, nil
		}
		var running *api.Refused
		if !errors.As(err, &running) || running.Status != http.StatusGatewayTimeout {
			return nil, nil, err
		}
		if fault := json.Unmarshal(running.Body, so); fault != nil || so.State == "" {
			return nil, nil, err
		}
		p.ShowLine(term.Printable(progressOf(so)))
	}
}

func (p *Program) reportRestore(so *api.Restoration) error {
	if so.State == "over" && so.Restored+so.Kept+so.Failed+so.Left == 0 {
		_, err := fmt.Fprintf(p.Stdout, "nothing to restore: upstream has lost nothing of %s (botwired status)\n", term.Printable(so.Namespace))
		return err
	}
	text := fmt.Sprintf("%s restored", words.Plural(so.Restored, "entry"))
	if so.Kept > 0 {
		text += fmt.Sprintf("; upstream had another value of %s, which stays", words.Plural(so.Kept, "entry"))
	}
	if so.Failed > 0 {
		text += fmt.Sprintf("; upstream has refused %s: see botwired dead-letters", words.Plural(so.Failed, "entry"))
	}
	fmt.Fprintln(p.Stdout, term.Printable(text))
	switch left := so.Left; {
	case left <= 0:
		return nil
	case so.State == "stopped":
		fmt.Fprintf(p.Stdout, "stopped: upstream lacks %s\n", words.Plural(left, "entry"))
		return nil
	}
	return fmt.Errorf("upstream still lacks %s, of which there is no copy here, or which it refuses: botwired forget %s gives them up",
		words.Plural(so.Left, "entry"), term.Printable(so.Namespace))
}

// restoreAll gives upstream back all that it has lost, and waits for the namespaces one by one.
func restoreAll(ctx context.Context, p *Program, c *attach.Client, asJSON bool) error {
	return ask(ctx, p, c, decideLoss("restore"), asJSON, func(so *api.Accepted) error {
		if so.Lost != "" {
			fmt.Fprintf(p.Stdout, "botwired goes on with the bucket as it is now (%s)\n", term.Printable(so.Lost))
		}
		if len(so.Namespaces) == 0 {
			_, err := fmt.Fprintln(p.Stdout, "nothing to restore: upstream has lost nothing (botwired status)")
			return err
		}
		return restoreEach(ctx, p, c, so.Namespaces)
	})
}

// restoreEach goes on if a namespace could not be restored.
func restoreEach(ctx context.Context, p *Program, c *attach.Client, namespaces []string) error {
	var failed []error
	for _, namespace := range namespaces {
		so, _, err := p.restore(ctx, c, namespace, false)
		if err == nil {
			fmt.Fprintf(p.Stdout, "%s: ", term.Printable(namespace))
			err = p.reportRestore(so)
		}
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", term.Printable(namespace), err))
		}
	}
	return errors.Join(failed...)
}
