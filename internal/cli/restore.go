package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

func newRestoreCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "restore NAMESPACE [KEY] | --all",
		Short:   "Give upstream back what it has lost of a namespace, or of all",
		GroupID: groupMemory,
		Long: "Give upstream back the entries of a namespace that it no longer holds: those of which the daemon\n" +
			"has a copy. They become pending writes like any others, which keep to the quota, and give way to a value\n" +
			"that upstream holds after all. The command waits for them, and shows how many are left; they go on\n" +
			"without it, and after a restart. You may repeat it at any time.\n" +
			"Of a namespace without data loss, nothing is restored.\n\n" +
			"With KEY, write the last value of an entry that upstream has ceased to hold, if it still holds nothing of it.\n\n" +
			"With --all and no namespace, upstream gets back every namespace with data loss. If the daemon has stopped asking a NATS\n" +
			"bucket, as it was made anew or has gone back, the daemon goes on with the bucket as it is now, and gives it\n" +
			"every entry of which it has a copy. Only a daemon that has run since it saw a delete deletes again what an older\n" +
			"bucket still holds. If the bucket is gone, the daemon makes it, or with upstream.nats.create: false waits for it:\n" +
			"put a backup back first.",
		Example: "  botwired restore my-agent\n" +
			"  botwired restore my-agent user_name\n" +
			"  botwired restore --all",
		Args: arguments(0, 2),
	}
	asJSON := JSONFlag(cmd)
	all := cmd.Flags().Bool("all", false, "restore all namespaces with data loss, and a bucket that has lost its writes")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		switch {
		case *all && len(args) > 0:
			return Usagef("--all is for every namespace: leave NAMESPACE out")
		case !*all && len(args) == 0:
			return Usagef("expected NAMESPACE, or --all for every one with data loss")
		}
		if *all {
			return restoreAll(ctx, p, c, *asJSON)
		}
		id := entryID{Namespace: args[0]}
		if len(args) == 2 {
			id.Key = args[1]
		}
		so, body, err := p.restore(ctx, c, id)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return term.JSON(p.Stdout, body)
		}
		return p.reportRestore(so, id)
	})
	return cmd
}

// restore waits until upstream has what it gets back, as long as a flush may last, and shows the progress meanwhile.
func (p *Program) restore(ctx context.Context, c *attach.Client, id entryID) (so *api.Restoration, body []byte, err error) {
	query := url.Values{"namespace": {id.Namespace}, "timeout": {api.MaxFlush.String()}}
	if id.Key != "" {
		query.Set("key", id.Key)
	}
	r := api.Request{Method: http.MethodPost, Path: api.Surface("restore"), Query: query, Within: api.MaxFlush + byHandGrace}
	stop := showPending(ctx, p, c, id.Namespace)
	defer stop()
	so = &api.Restoration{}
	answer, _, err := c.ReadProgress(ctx, r, so, func() bool { return so.State != "" })
	if err != nil {
		return nil, nil, err
	}
	return so, answer.Body, nil
}

func (p *Program) reportRestore(so *api.Restoration, of entryID) error {
	nothing := so.State == "over" && so.Restored+so.Kept+so.Failed+so.Uncopied == 0
	if nothing && of.Key != "" {
		_, err := fmt.Fprintf(p.Stdout, "nothing to restore: %s is not gone (botwired history)\n", term.Printable(of.String()))
		return err
	}
	if nothing {
		_, err := fmt.Fprintf(p.Stdout, "nothing to restore: upstream has lost nothing of %s (botwired status)\n", term.Printable(so.Namespace))
		return err
	}
	return p.reportRestored(words.Plural(so.Restored, "entry")+" restored", so)
}

// reportRestored prints the text and what upstream has kept. Its error says what upstream lacks.
func (p *Program) reportRestored(text string, so *api.Restoration) error {
	if so.Kept > 0 {
		text += fmt.Sprintf("; upstream had another value of %s, which stays", words.Plural(so.Kept, "entry"))
	}
	fmt.Fprintln(p.Stdout, term.Printable(text))
	if so.Left > 0 {
		waits := ""
		if so.Waits != nil {
			waits = ": " + waitText(io.Discard, so.Waits)
		}
		return fmt.Errorf("upstream does not have %s yet%s. botwired goes on: botwired restore %s waits for the rest",
			words.Plural(so.Left, "entry"), term.Printable(waits), term.Printable(so.Namespace))
	}
	if so.Failed > 0 {
		return fmt.Errorf("upstream has refused %s: see botwired dead-letters", words.Plural(so.Failed, "entry"))
	}
	return lostForGood(so.Uncopied)
}

// lostForGood is the error of a restoration that could not restore some entries; nil for none.
func lostForGood(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s cannot be restored: upstream no longer has %s, and there was no copy here", words.Plural(n, "entry"), words.ByNumber(n, "it", "them"))
}

// restoreAll gives upstream back all that it has lost, and waits for the namespaces one by one.
func restoreAll(ctx context.Context, p *Program, c *attach.Client, asJSON bool) error {
	return ask(ctx, p, c, decideLoss("restore"), asJSON, func(so *api.Accepted) error {
		if so.Lost != "" {
			fmt.Fprintf(p.Stdout, "botwired goes on with the bucket as it is now (%s)\n", term.Printable(so.Lost))
		}
		if len(so.Namespaces) == 0 {
			_, err := fmt.Fprintln(p.Stdout, "nothing to restore: upstream has lost nothing, or what it has lost is pending already (botwired status)")
			return err
		}
		return errors.Join(restoreEach(ctx, p, c, so.Namespaces), lostForGood(so.Uncopied))
	})
}

// restoreEach goes on if a namespace could not be restored. Some of it may have settled before it asks, so it counts no entries.
func restoreEach(ctx context.Context, p *Program, c *attach.Client, namespaces []string) error {
	var failed []error
	for _, namespace := range namespaces {
		so, _, err := p.restore(ctx, c, entryID{Namespace: namespace})
		if err == nil {
			fmt.Fprintf(p.Stdout, "%s: ", term.Printable(namespace))
			text := "restored"
			if so.Left+so.Failed > 0 {
				text = words.Plural(so.Restored, "entry") + " restored"
			}
			err = p.reportRestored(text, so)
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

func newForgetCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "forget NAMESPACE [KEY] | --all",
		Short:   "Drop the copies of what upstream no longer has in a namespace",
		GroupID: groupMemory,
		Long: "Drop the copies of entries that upstream does not list in a namespace, and copies that are newer than what\n" +
			"it lists. They stay in the history, as gone: \"botwired undo\" brings one back. Pending writes stay. Without\n" +
			"--yes, botwired asks first.\n\n" +
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
		if err := p.mayAsk(*yes || len(args) == 2, "gives copies up"); err != nil {
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
	return p.Confirm(ctx, fmt.Sprintf("Give up what upstream lacks of the namespace %s?%s", namespace, lost))
}

func forgetEntry(ctx context.Context, p *Program, c *attach.Client, namespace, key string, asJSON bool) error {
	r := api.Request{Method: http.MethodPost, Path: api.Surface("forget"), Query: url.Values{"namespace": {namespace}, "key": {key}}}
	err := ask(ctx, p, c, r, asJSON, func(so *api.ForgottenEntry) error {
		text := "there was no copy of %s here\n"
		if so.Forgotten > 0 {
			text = "the copy of %s is forgotten: the next read asks upstream\n"
		}
		_, err := fmt.Fprintf(p.Stdout, text, term.Printable(entryID{namespace, key}.String()))
		return err
	})
	if api.IsRefused(err, http.StatusConflict) {
		return fmt.Errorf("a write to %s is pending, and would be lost: botwired flush --now has it sent first, botwired pending drop makes it a dead letter",
			term.Printable(entryID{namespace, key}.String()))
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
