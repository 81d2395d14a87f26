package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func newDeadLettersCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead-letters",
		Short: "List the writes that upstream has refused for good",
		Args:  noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		letters, err := allDeadLetters(cmd.Context(), c)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.stdout, fmt.Appendf(nil, `{"dead_letters":[%s]}`, bytes.Join(letters, []byte(","))))
		}
		return printDeadLetters(p.stdout, c, letters)
	}
	cmd.AddCommand(
		newRetryCommand(p, settings),
		newDecisionCommand(p, settings, decision{
			name: "delete", short: "Give dead letters up", done: "deleted",
			request: func(id string) request {
				return request{method: http.MethodDelete, path: surface("dead-letters", id)}
			},
		}),
	)
	return cmd
}

// deadLettersPage is how many dead letters are asked for at a time.
const deadLettersPage = 1000

// allDeadLetters asks for one page after another, each after the last dead letter of the
// one before.
func allDeadLetters(ctx context.Context, c *client) (letters [][]byte, err error) {
	query := url.Values{"limit": {strconv.Itoa(deadLettersPage)}}
	for {
		page, last, err := deadLetters(ctx, c, query)
		if err != nil {
			return nil, err
		}
		letters = append(letters, page...)
		if len(page) < deadLettersPage || last == query.Get("after") {
			return letters, nil
		}
		query.Set("after", last)
	}
}

// deadLetters asks for one page and returns it and the ID of its last dead letter.
func deadLetters(ctx context.Context, c *client, query url.Values) (page [][]byte, last string, err error) {
	body, err := c.do(ctx, request{method: http.MethodGet, path: surface("dead-letters"), query: query})
	if err != nil {
		return nil, "", err
	}
	var answer struct {
		DeadLetters []json.RawMessage `json:"dead_letters"`
	}
	if err := c.decode(body, &answer); err != nil {
		return nil, "", err
	}
	var letter struct {
		ID cell `json:"id"`
	}
	for _, raw := range answer.DeadLetters {
		if err := c.decode(raw, &letter); err != nil {
			return nil, "", err
		}
		page = append(page, raw)
	}
	return page, string(letter.ID), nil
}

func printDeadLetters(w io.Writer, c *client, letters [][]byte) error {
	rows := make([][]string, 0, len(letters))
	for _, raw := range letters {
		var d struct {
			ID        cell `json:"id"`
			Seq       cell `json:"seq"`
			Namespace cell `json:"namespace"`
			Key       cell `json:"key"`
			Op        cell `json:"op"`
			WrittenAt cell `json:"written_at"`
			Status    cell `json:"status"`
			Error     cell `json:"error"`
		}
		if err := c.decode(raw, &d); err != nil {
			return err
		}
		rows = append(rows, []string{string(d.ID), string(d.Seq), string(d.Namespace), string(d.Key), string(d.Op),
			d.WrittenAt.moment(), string(d.Status), string(d.Error)})
	}
	header := []string{"ID", "SEQ", "NAMESPACE", "KEY", "OP", "WRITTEN", "STATUS", "ERROR"}
	return printTable(w, header, rows)
}

// newRetryCommand retries the dead letters of the given IDs, or all of them.
func newRetryCommand(p *process, settings *settingFlags) *cobra.Command {
	some := newDecisionCommand(p, settings, decision{
		name: "retry", short: "Make dead letters pending again", done: "retried",
		request: func(id string) request {
			return request{method: http.MethodPost, path: surface("dead-letters", id, "retry")}
		},
	})
	some.Use = "retry ID... | --all"
	some.Long = "Make dead letters pending again: those of the given IDs, or all of them, of one namespace if it is named.\n" +
		"--all leaves out a dead letter if a newer write to its entry is known: the retry would undo that one."
	all := some.Flags().Bool("all", false, "all dead letters, instead of the given ones")
	namespace := namespaceFlag(some, "with --all: only those of this namespace")
	byID, retryByID := some.Args, some.RunE
	some.Args = func(cmd *cobra.Command, ids []string) error {
		switch {
		case *all:
			return noArguments(cmd, ids)
		case *namespace != "":
			return usagef("--namespace is for --all: an ID names its dead letter")
		}
		return byID(cmd, ids)
	}
	some.RunE = func(cmd *cobra.Command, ids []string) error {
		if !*all {
			return retryByID(cmd, ids)
		}
		asJSON, err := cmd.Flags().GetBool("json")
		if err != nil {
			return err
		}
		return retryAll(cmd.Context(), p, settings, *namespace, asJSON)
	}
	return some
}

func retryAll(ctx context.Context, p *process, settings *settingFlags, namespace string, asJSON bool) error {
	c, err := settings.connect()
	if err != nil {
		return err
	}
	r := request{method: http.MethodPost, path: surface("dead-letters", "retry")}
	if namespace != "" {
		r.query = url.Values{"namespace": {namespace}}
	}
	body, err := c.wait(ctx, r, math.MaxInt64) // for as long as it takes
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(p.stdout, body)
	}
	var done struct{ Retried, Skipped cell }
	if err := c.decode(body, &done); err != nil {
		return err
	}
	text := "retried " + plural(done.Retried.number(), "dead letter")
	if skipped := done.Skipped.number(); skipped > 0 {
		text += fmt.Sprintf(", skipped %d: a newer write to the same entry is known", skipped)
	}
	_, err = fmt.Fprintln(p.stdout, text)
	return err
}

// decision is what a person decides about dead letters.
type decision struct {
	name, short, done string
	request           func(id string) request
}

func newDecisionCommand(p *process, settings *settingFlags, d decision) *cobra.Command {
	cmd := &cobra.Command{
		Use:   d.name + " ID...",
		Short: d.short,
		Args:  arguments(1, math.MaxInt),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		done, failed := d.carryOut(cmd.Context(), c, ids)
		if *asJSON {
			return errors.Join(encodeJSON(p.stdout, map[string][]string{d.done: done}), failed)
		}
		for _, id := range done {
			fmt.Fprintf(p.stdout, "%s dead letter %s\n", d.done, printable(id))
		}
		return failed
	}
	return cmd
}

// carryOut goes on after a refusal, so that one stale ID does not keep the
// others waiting, and reports all refusals in one line. It stops when the
// daemon cannot be reached.
func (d decision) carryOut(ctx context.Context, c *client, ids []string) (done []string, err error) {
	done = []string{}
	var refused []string
	for _, id := range ids {
		_, err := c.do(ctx, d.request(id))
		var no *statusError
		switch {
		case err == nil:
			done = append(done, id)
		case errors.As(err, &no) && no.status == http.StatusNotFound && no.means == "":
			refused = append(refused, fmt.Sprintf("there is no dead letter %s: it may have been retried or deleted", id))
		case errors.As(err, &no):
			refused = append(refused, fmt.Sprintf("dead letter %s: %v", id, err))
		default:
			return done, err
		}
	}
	if len(refused) > 0 {
		return done, errors.New(strings.Join(refused, "; "))
	}
	return done, nil
}
