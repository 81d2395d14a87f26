package cli

import (
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

// decideLoss tells the daemon what a person has decided about a bucket. It returns nil if there is
// nothing left to say: it has failed, or has printed the answer as JSON.
func decideLoss(ctx context.Context, p *Program, c *attach.Client, decision string, asJSON bool) (*api.Accepted, error) {
	r := byHand(decision, url.Values{"namespace": {"*"}})
	body, err := c.Ask(ctx, r)
	if err != nil {
		return nil, err
	}
	if asJSON {
		return nil, term.JSON(p.Stdout, body)
	}
	var so api.Accepted
	if err := c.Decode(body, &so); err != nil {
		return nil, err
	}
	return &so, nil
}

// restoreAll has upstream get back all that it has lost, and waits for one namespace after the other.
func restoreAll(ctx context.Context, p *Program, settings *Settings, asJSON bool) error {
	c, err := settings.connect()
	if err != nil {
		return err
	}
	so, err := decideLoss(ctx, p, c, "restore", asJSON)
	if so == nil {
		return err
	}
	if so.Lost != "" {
		fmt.Fprintf(p.Stdout, "botwired goes on with the bucket that is there (%s)\n", term.Printable(so.Lost))
	}
	if len(so.Namespaces) == 0 {
		_, err := fmt.Fprintln(p.Stdout, "nothing to restore: no namespace is suspect (botwired status)")
		return err
	}
	var failed []error
	for _, namespace := range so.Namespaces {
		body, err := p.restore(ctx, c, namespace, false)
		if err == nil {
			fmt.Fprintf(p.Stdout, "%s: ", term.Printable(namespace))
			err = p.reportRestore(c, body)
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
	so, err := decideLoss(ctx, p, c, "forget", asJSON)
	if so == nil {
		return err
	}
	text := "nothing to decide: upstream has lost nothing that botwired knows of"
	if so.Lost != "" {
		text = "botwired goes on with the bucket that is there"
	}
	_, err = fmt.Fprintln(p.Stdout, text)
	return err
}

// lost says that the bucket has lost writes; empty if it has not.
func (s *status) lost() string {
	if s.Upstream.Watch.Lost == "" {
		return ""
	}
	return string(s.Upstream.Watch.Lost) + `; "botwired restore --all" goes on with it and gives it what is here, "botwired forget --all" only goes on`
}

// watched says how the watch of a cluster does; empty if upstream does not tell of changes.
func (s *status) watched(w io.Writer) string {
	watch, of := s.Upstream.Watch, ""
	if watch.Bucket != "" {
		of = "the bucket " + string(watch.Bucket)
		if watch.Server != "" {
			of += " at " + string(watch.Server)
		}
		of += ", "
	}
	switch watch.Sound {
	case "":
		return ""
	case "true":
		return of + fmt.Sprintf("sound %s: what other hosts change is seen at once, and no answer gets old; %s, %s of memory",
			term.Since(w, watch.Since), words.Plural(watch.Entries.Number(), "entry"), watch.Bytes.Size())
	}
	return of + fmt.Sprintf("broken %s: %s; copies count for cache.fresh_for", term.Since(w, watch.Since), watch.Reason.Or("it has not caught up yet"))
}
