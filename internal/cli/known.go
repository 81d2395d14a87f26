package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/wire"
)

// knownPage is how many entries one request of list --prefix asks for.
const knownPage = 1000

// listKnown prints, in the order of the keys, what the daemon knows of a namespace: more than
// BotWire lists. It prints a page as soon as it has come.
func (p *Program) listKnown(ctx context.Context, c *attach.Client, namespace, prefix string, most int, asJSON bool) error {
	if invalid := wire.CheckNamespace(namespace); invalid != nil {
		return &api.Refused{Status: invalid.Status, Body: invalid.Body}
	}
	printed, after, complete := 0, "", false
	for more := true; more; {
		query := url.Values{"namespace": {namespace}, "limit": {strconv.Itoa(min(knownPage, most-printed))}}
		if prefix != "" {
			query.Set("prefix", prefix)
		}
		if after != "" {
			query.Set("after", after)
		}
		var part api.Entries
		if _, err := c.Read(ctx, api.Request{Path: api.Surface("entries"), Query: query}, &part); err != nil {
			return err
		}
		if part.Next != nil && *part.Next <= after {
			return c.Foreign() // it would go on for ever
		}
		if err := p.printKnown(part.Entries, printed == 0, asJSON); err != nil {
			return err
		}
		printed, complete = printed+len(part.Entries), part.Complete
		if more = part.Next != nil && printed < most; more {
			after = *part.Next
		}
	}
	if !complete {
		fmt.Fprintf(p.Stderr, "these are the keys that botwired knows, and upstream may have more: it has not listed all of %s\n", term.Printable(namespace))
	}
	return nil
}

// printKnown prints entries: a line of JSON each, or the part of a table.
func (p *Program) printKnown(entries []api.Entry, first, asJSON bool) error {
	var errs []error
	rows := make([][]string, 0, len(entries))
	for _, known := range entries {
		if asJSON {
			errs = append(errs, term.EncodeJSON(p.Stdout, known))
			continue
		}
		state := known.State
		if known.State == "pending" && known.Op == "delete" {
			state = "pending delete"
		}
		rows = append(rows, []string{known.Key, strconv.Itoa(known.ListBytes), term.Plain(term.Unix(known.UpdatedAt)), state})
	}
	if asJSON {
		return errors.Join(errs...)
	}
	if first {
		return term.Table(p.Stdout, []string{"KEY", "BYTES", "UPDATED", "STATE"}, rows)
	}
	return term.Rows(p.Stdout, rows)
}

// forgetEntry has the daemon drop its copy of one entry.
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
