package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

func newForgetCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "forget NAMESPACE [KEY] | --all",
		Short:   "Drop the copies of what upstream no longer has in a namespace",
		GroupID: groupMemory,
		Long: "Drop for good the copies of entries that upstream does not list in a namespace, and copies that are newer\n" +
			"than what it lists. Pending writes stay. Without --yes, botwired asks first.\n\n" +
			"With KEY, drop the local copy of one entry: the next read asks upstream. That loses nothing which upstream\n" +
			"holds, and botwired does not ask first. If a write to the entry is pending, nothing is dropped.\n\n" +
			"With --all and no namespace, the daemon goes on with a NATS bucket that was made anew or has gone back, as\n" +
			"it is, and gives nothing back. \"botwired restore --all\" gives it what the daemon has.",
		Example: "  botwired export my-agent > before.jsonl && botwired forget my-agent\n" +
			"  botwired forget my-agent --yes\n" +
			"  botwired forget my-agent user_name\n" +
			"  botwired forget --all",
		Args: arguments(0, 2),
	}
	asJSON := JSONFlag(cmd)
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	whole := cmd.Flags().Bool("all", false, "go on with a bucket that has lost writes, as it is")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		switch {
		case *whole && len(args) > 0:
			return Usagef("--all is for the whole bucket: leave NAMESPACE out")
		case !*whole && len(args) == 0:
			return Usagef("expected NAMESPACE, or --all for a bucket that has lost its writes")
		}
		if err := p.mayAsk(*yes || len(args) == 2, "gives copies up for good"); err != nil {
			return err
		}
		switch {
		case len(args) == 2:
			return forgetEntry(ctx, p, c, args[0], args[1], *asJSON)
		case *whole:
			return acceptUpstream(ctx, p, c, *yes, *asJSON)
		case !*yes:
			if err := p.confirmForget(ctx, c, args[0]); err != nil {
				return err
			}
		}
		r := byHand("forget", url.Values{"namespace": {args[0]}})
		return ask(ctx, p, c, r, *asJSON, func(so *api.Forgotten) error {
			_, err := fmt.Fprintf(p.Stdout, "%s forgotten; upstream lists %s\n", words.Plural(so.Forgotten, "entry"), words.Plural(so.UpstreamHolds, "entry"))
			return err
		})
	})
	return cmd
}

func (p *Program) confirmForget(ctx context.Context, c *attach.Client, namespace string) error {
	lost := ""
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	for _, n := range s.Namespaces {
		if n.Namespace == namespace && n.DataLoss != nil {
			lost = fmt.Sprintf(" Upstream lacks %d of %d.", n.DataLoss.Missing, n.DataLoss.Of)
		}
	}
	return p.Confirm(ctx, fmt.Sprintf("Give up for good what upstream lacks of the namespace %s?%s", namespace, lost))
}

func forgetEntry(ctx context.Context, p *Program, c *attach.Client, namespace, key string, asJSON bool) error {
	r := api.Request{Method: http.MethodPost, Path: api.Surface("forget"), Query: url.Values{"namespace": {namespace}, "key": {key}}}
	err := ask(ctx, p, c, r, asJSON, func(so *api.ForgottenEntry) error {
		text := "there was no copy of %s here\n"
		if so.Forgotten > 0 {
			text = "the copy of %s is forgotten: the next read asks upstream\n"
		}
		_, err := fmt.Fprintf(p.Stdout, text, term.Printable(joined(namespace, key)))
		return err
	})
	if api.IsRefused(err, http.StatusConflict) {
		return fmt.Errorf("a write to %s is pending, and would be lost: botwired flush --now has it sent first, botwired pending drop makes it a dead letter",
			joined(namespace, key))
	}
	return err
}

func acceptUpstream(ctx context.Context, p *Program, c *attach.Client, yes, asJSON bool) error {
	if !yes {
		if err := p.Confirm(ctx, "Go on with the bucket that is there, and give up for good what it has lost?"); err != nil {
			return err
		}
	}
	return ask(ctx, p, c, decideLoss("forget"), asJSON, func(so *api.Accepted) error {
		text := "nothing to decide: upstream has lost nothing that botwired knows of"
		if so.Lost != "" {
			text = "botwired goes on with the bucket as it is now"
		}
		_, err := fmt.Fprintln(p.Stdout, text)
		return err
	})
}
