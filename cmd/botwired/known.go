package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

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
func (p *process) listKnown(ctx context.Context, c *client, namespace, prefix string, most int, asJSON bool) error {
	if invalid := wire.CheckNamespace(namespace); invalid != nil {
		return &statusError{status: invalid.Status, body: invalid.Body}
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
		body, err := c.do(ctx, request{method: http.MethodGet, path: surface("entries"), query: query})
		if err != nil {
			return err
		}
		var part knownPart
		if err := c.decode(body, &part); err != nil {
			return err
		}
		if part.Next != nil && *part.Next <= after {
			return c.foreign() // it would go on for ever
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
		fmt.Fprintf(p.stderr, "these are the keys that botwired knows, and upstream may have more: it has not listed all of %s\n", printable(namespace))
	}
	return nil
}

// printKnown prints entries: a line of JSON each, or the part of a table.
func (p *process) printKnown(c *client, entries []json.RawMessage, first, asJSON bool) error {
	var errs []error
	rows := make([][]string, 0, len(entries))
	for _, entry := range entries {
		if asJSON {
			errs = append(errs, printJSON(p.stdout, entry))
			continue
		}
		var known struct {
			Key     cell `json:"key"`
			State   cell `json:"state"`
			Op      cell `json:"op"`
			Bytes   cell `json:"list_bytes"`
			Updated cell `json:"updated_at"`
		}
		if err := c.decode(entry, &known); err != nil {
			return err
		}
		state := string(known.State)
		if known.State == "pending" && known.Op == "delete" {
			state = "pending delete"
		}
		rows = append(rows, []string{string(known.Key), string(known.Bytes), known.Updated.moment(), state})
	}
	if asJSON {
		return errors.Join(errs...)
	}
	if first {
		return printTable(p.stdout, []string{"KEY", "BYTES", "UPDATED", "STATE"}, rows)
	}
	return printRows(p.stdout, rows)
}

// forgetEntry has the daemon drop its copy of one entry.
func forgetEntry(ctx context.Context, p *process, c *client, namespace, key string, asJSON bool) error {
	r := request{method: http.MethodPost, path: surface("forget"), query: url.Values{"namespace": {namespace}, "key": {key}}}
	body, err := c.do(ctx, r)
	if refused := (*statusError)(nil); errors.As(err, &refused) && refused.status == http.StatusConflict {
		return fmt.Errorf("a write to %s is pending, and would be lost: botwired flush --now has it sent first, botwired pending drop makes it a dead letter",
			joinNames(namespace, key))
	}
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(p.stdout, body)
	}
	var so struct {
		Forgotten cell `json:"forgotten"`
	}
	if err := c.decode(body, &so); err != nil {
		return err
	}
	text := "there was no copy of %s here\n"
	if so.Forgotten.number() > 0 {
		text = "the copy of %s is forgotten: the next read asks upstream\n"
	}
	_, err = fmt.Fprintf(p.stdout, text, printable(joinNames(namespace, key)))
	return err
}
