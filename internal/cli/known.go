package cli

import (
	"context"
	"encoding/json"
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

// knownPart is a page of the entries that the daemon knows.
type knownPart struct {
	Entries  []json.RawMessage `json:"entries"`
	Next     *string           `json:"next"`
	Complete bool              `json:"complete"`
}

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
		body, err := c.Ask(ctx, api.Request{Path: api.Surface("entries"), Query: query})
		if err != nil {
			return err
		}
		var part knownPart
		if err := c.Decode(body, &part); err != nil {
			return err
		}
		if part.Next != nil && *part.Next <= after {
			return c.Foreign() // it would go on for ever
		}
		if err := p.printKnown(c, part.Entries, printed == 0, asJSON); err != nil {
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
func (p *Program) printKnown(c *attach.Client, entries []json.RawMessage, first, asJSON bool) error {
	var errs []error
	rows := make([][]string, 0, len(entries))
	for _, entry := range entries {
		if asJSON {
			errs = append(errs, term.JSON(p.Stdout, entry))
			continue
		}
		var known struct {
			Key     term.Cell `json:"key"`
			State   term.Cell `json:"state"`
			Op      term.Cell `json:"op"`
			Bytes   term.Cell `json:"list_bytes"`
			Updated term.Cell `json:"updated_at"`
		}
		if err := c.Decode(entry, &known); err != nil {
			return err
		}
		state := string(known.State)
		if known.State == "pending" && known.Op == "delete" {
			state = "pending delete"
		}
		rows = append(rows, []string{string(known.Key), string(known.Bytes), known.Updated.Moment(), state})
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
	body, err := c.Ask(ctx, r)
	if refused := (*api.Refused)(nil); errors.As(err, &refused) && refused.Status == http.StatusConflict {
		return fmt.Errorf("a write to %s is pending, and would be lost: botwired flush --now has it sent first, botwired pending drop makes it a dead letter",
			joined(namespace, key))
	}
	if err != nil {
		return err
	}
	if asJSON {
		return term.JSON(p.Stdout, body)
	}
	var so struct {
		Forgotten term.Cell `json:"forgotten"`
	}
	if err := c.Decode(body, &so); err != nil {
		return err
	}
	text := "there was no copy of %s here\n"
	if so.Forgotten.Number() > 0 {
		text = "the copy of %s is forgotten: the next read asks upstream\n"
	}
	_, err = fmt.Fprintf(p.Stdout, text, term.Printable(joined(namespace, key)))
	return err
}
