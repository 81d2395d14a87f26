package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/wire"
)

const knownPage = 1000

// listKnown prints the entries of a namespace that the daemon knows, in key order. They may be more
// than BotWire lists. It prints each page when it arrives.
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
			return c.Foreign() // otherwise this loop would never end
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

// printKnown prints entries: one line of JSON each, or rows of a table.
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

func (p *Program) listNamespaces(ctx context.Context, c *attach.Client, asJSON bool) error {
	known, err := c.Namespaces(ctx)
	var rows [][]string
	for i := range known {
		n := &known[i]
		if asJSON {
			err = errors.Join(err, term.EncodeJSON(p.Stdout, n))
		}
		entries := strconv.Itoa(n.Entries)
		if n.AtLeast {
			entries = "more than " + entries
		}
		rows = append(rows, []string{n.Namespace, entries, strconv.Itoa(n.Pending), strconv.FormatInt(n.Bytes, 10)})
	}
	if err != nil || asJSON {
		return err
	}
	return term.Table(p.Screen(), []string{"NAMESPACE", "ENTRIES", "PENDING", "BYTES"}, rows)
}
