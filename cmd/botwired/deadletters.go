package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
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
		return settings.show(cmd.Context(), request{method: http.MethodGet, path: surface("dead-letters")}, *asJSON, printDeadLetters)
	}
	cmd.AddCommand(
		newVerdictCommand(p, settings, verdict{
			name: "retry", short: "Make dead letters pending again", done: "retried",
			request: func(id string) request {
				return request{method: http.MethodPost, path: surface("dead-letters", id, "retry")}
			},
		}),
		newVerdictCommand(p, settings, verdict{
			name: "delete", short: "Give dead letters up", done: "deleted",
			request: func(id string) request {
				return request{method: http.MethodDelete, path: surface("dead-letters", id)}
			},
		}),
	)
	return cmd
}

func printDeadLetters(w io.Writer, c *client, body []byte) error {
	var answer struct {
		DeadLetters []struct {
			ID        cell `json:"id"`
			Seq       cell `json:"seq"`
			Namespace cell `json:"namespace"`
			Key       cell `json:"key"`
			Op        cell `json:"op"`
			WrittenAt cell `json:"written_at"`
			Status    cell `json:"status"`
			Error     cell `json:"error"`
		} `json:"dead_letters"`
	}
	if err := c.decode(body, &answer); err != nil {
		return err
	}
	rows := make([][]string, 0, len(answer.DeadLetters))
	for _, d := range answer.DeadLetters {
		rows = append(rows, []string{string(d.ID), string(d.Seq), string(d.Namespace), string(d.Key), string(d.Op),
			d.WrittenAt.moment(), string(d.Status), string(d.Error)})
	}
	header := []string{"ID", "SEQ", "NAMESPACE", "KEY", "OP", "WRITTEN", "STATUS", "ERROR"}
	return printTable(w, header, rows)
}

// verdict is what a person decides about dead letters.
type verdict struct {
	name, short, done string
	request           func(id string) request
}

func newVerdictCommand(p *process, settings *settingFlags, v verdict) *cobra.Command {
	cmd := &cobra.Command{
		Use:   v.name + " ID...",
		Short: v.short,
		Args:  arguments(1, math.MaxInt),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		done, failed := v.carryOut(cmd.Context(), c, ids)
		if *asJSON {
			return errors.Join(encodeJSON(p.stdout, map[string][]string{v.done: done}), failed)
		}
		for _, id := range done {
			fmt.Fprintf(p.stdout, "%s %s\n", v.done, printable(id))
		}
		return failed
	}
	return cmd
}

// carryOut goes on after a refusal, so that one stale ID does not keep the
// others waiting, and reports all refusals in one line. It stops when the
// daemon cannot be reached.
func (v verdict) carryOut(ctx context.Context, c *client, ids []string) (done []string, err error) {
	done = []string{}
	var refused []string
	for _, id := range ids {
		_, err := c.do(ctx, v.request(id))
		var no *statusError
		switch {
		case err == nil:
			done = append(done, id)
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
