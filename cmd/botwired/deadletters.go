package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

func newDeadLettersCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dead-letters",
		Short:   "List the writes that upstream refused, or that lost a conflict",
		GroupID: groupDaily,
		Example: "  botwired dead-letters\n" +
			"  botwired dead-letters --json | jq '.dead_letters[].error'",
		Long: "List the writes that upstream has refused for good, and those that botwired pending drop has made dead letters.\n" +
			"The open ones come first: retry or delete them. A later write to the same key supersedes a dead letter, once\n" +
			"upstream has taken it. Nobody has to decide on a superseded one.\n\n" +
			"Of two hosts that write to the same key, the later write by its time stays. The other value is kept here too:\n" +
			"this daemon's, superseded by another host, or another host's, which a write of this daemon has overwritten.",
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		var letters [][]byte
		err = eachDeadLetter(cmd.Context(), c, "", func(_ string, raw []byte) error {
			letters = append(letters, raw)
			return nil
		})
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.stdout, fmt.Appendf(nil, `{"dead_letters":[%s]}`, bytes.Join(letters, []byte(","))))
		}
		return printDeadLetters(p.screen(), c, letters)
	}
	cmd.AddCommand(
		newShowCommand(p, settings),
		newExportCommand(p, settings),
		newRetryCommand(p, settings),
		newDiscardCommand(p, settings),
	)
	return cmd
}

// deadLettersPage is how many dead letters are asked for at a time.
const deadLettersPage = 1000

// eachDeadLetter visits all dead letters, or those of a namespace, as the list has them: the
// oldest first. It asks for one page after another, each after the last dead letter of the
// one before.
func eachDeadLetter(ctx context.Context, c *client, namespace string, visit func(id string, raw []byte) error) error {
	query := url.Values{"limit": {strconv.Itoa(deadLettersPage)}}
	for {
		body, err := c.do(ctx, request{method: http.MethodGet, path: surface("dead-letters"), query: query})
		if err != nil {
			return err
		}
		var page struct {
			DeadLetters []json.RawMessage `json:"dead_letters"`
		}
		if err := c.decode(body, &page); err != nil {
			return err
		}
		last := ""
		for _, raw := range page.DeadLetters {
			var letter struct{ ID, Namespace cell }
			if err := c.decode(raw, &letter); err != nil {
				return err
			}
			last = string(letter.ID)
			if namespace != "" && namespace != string(letter.Namespace) {
				continue
			}
			if err := visit(last, raw); err != nil {
				return err
			}
		}
		if len(page.DeadLetters) < deadLettersPage || last == query.Get("after") {
			return nil
		}
		query.Set("after", last)
	}
}

// listedLetter is a dead letter without its value.
type listedLetter struct {
	ID           cell `json:"id"`
	Kind         cell `json:"kind"`
	Host         cell `json:"host"`
	SupersededBy cell `json:"superseded_by"`
	Seq          cell `json:"seq"`
	Namespace    cell `json:"namespace"`
	Key          cell `json:"key"`
	Op           cell `json:"op"`
	WrittenAt    cell `json:"written_at"`
	RefusedAt    cell `json:"refused_at"`
	Status       cell `json:"status"`
	Error        cell `json:"error"`
}

const openLetter = "open"

// isTheirs reports whether it is another host's state.
func (d *listedLetter) isTheirs() bool { return d.Host == "other" }

func (d *listedLetter) isSuperseded() bool { return d.SupersededBy != "" || d.Kind == "superseded" }

// state says whether the dead letter waits for a person, and if not, why not.
func (d *listedLetter) state() string {
	switch {
	case d.isTheirs():
		return "another host's, overwritten by " + string(d.SupersededBy)
	case d.SupersededBy != "":
		return "superseded by " + string(d.SupersededBy)
	case d.Kind == "superseded":
		return "superseded by another host"
	case d.Kind == "dropped":
		return "dropped"
	}
	return openLetter
}

// ended names what has made the write a dead letter.
func (d *listedLetter) ended() string {
	switch {
	case d.isTheirs():
		return "overwritten"
	case d.Kind == "dropped", d.Kind == "superseded":
		return string(d.Kind)
	}
	return "refused"
}

// status is empty for a write that upstream has not answered.
func (d *listedLetter) status() string {
	if d.Status == "0" {
		return ""
	}
	return string(d.Status)
}

// printDeadLetters prints the open ones first.
func printDeadLetters(w io.Writer, c *client, letters [][]byte) error {
	var open, others [][]string
	for _, raw := range letters {
		var d listedLetter
		if err := c.decode(raw, &d); err != nil {
			return err
		}
		state := d.state()
		row := []string{string(d.ID), state, string(d.Seq), string(d.Namespace), string(d.Key), string(d.Op),
			moment(w, d.WrittenAt), d.status(), string(d.Error)}
		if state == openLetter {
			open = append(open, row)
		} else {
			others = append(others, row)
		}
	}
	header := []string{"ID", "STATE", "SEQ", "NAMESPACE", "KEY", "OP", "WRITTEN", "STATUS", "ERROR"}
	return printTable(w, header, append(open, others...))
}
