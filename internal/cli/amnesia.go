package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// decideLoss sends the daemon a person's decision about a bucket.
func decideLoss(decision string) api.Request {
	return byHand(decision, url.Values{"namespace": {"*"}})
}

// restoreAll has upstream get back all that it has lost, and waits for one namespace after the other.
func restoreAll(ctx context.Context, p *Program, settings *Settings, asJSON bool) error {
	c, err := settings.connect()
	if err != nil {
		return err
	}
	return ask(ctx, p, c, decideLoss("restore"), asJSON, func(so *api.Accepted) error {
		if so.Lost != "" {
			fmt.Fprintf(p.Stdout, "botwired goes on with the bucket that is there (%s)\n", term.Printable(so.Lost))
		}
		if len(so.Namespaces) == 0 {
			_, err := fmt.Fprintln(p.Stdout, "nothing to restore: no namespace is suspect (botwired status)")
			return err
		}
		return restoreEach(ctx, p, c, so.Namespaces)
	})
}

// restoreEach goes on after a namespace that could not be restored.
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

// acceptUpstream has the daemon go on with a bucket as it is. Unless yes is set, it asks first.
func acceptUpstream(ctx context.Context, p *Program, c *attach.Client, yes, asJSON bool) error {
	if !yes {
		if err := p.Confirm(ctx, "Go on with the bucket that is there, and give up for good what it has lost?"); err != nil {
			return err
		}
	}
	return ask(ctx, p, c, decideLoss("forget"), asJSON, func(so *api.Accepted) error {
		text := "nothing to decide: upstream has lost nothing that botwired knows of"
		if so.Lost != "" {
			text = "botwired goes on with the bucket that is there"
		}
		_, err := fmt.Fprintln(p.Stdout, text)
		return err
	})
}

// watchText returns the state of the watch by which a cluster reports changes.
func watchText(w io.Writer, watch *api.WatchState) string {
	of := ""
	if watch.Bucket != "" {
		of = "the bucket " + watch.Bucket
		if watch.Server != "" {
			of += " at " + watch.Server
		}
		of += ", "
	}
	if watch.Sound {
		return of + fmt.Sprintf("sound %s: what other hosts change is seen at once, and no answer gets old; %s, %s of memory",
			term.Since(w, watch.Since), words.Plural(watch.Entries, "entry"), term.Size(watch.Bytes))
	}
	return of + fmt.Sprintf("broken %s: %s; copies count for cache.fresh_for", term.Since(w, watch.Since), cmp.Or(watch.Reason, "it has not caught up yet"))
}
