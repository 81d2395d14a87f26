package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func newShowCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print the value of a dead letter",
		Example: "  botwired dead-letters show 17\n" +
			"  botwired dead-letters show 17 > value.txt    # to the byte",
		Long: "Print the value of a dead letter to the byte. On a terminal, what is known of the dead letter comes first,\n" +
			"control characters other than tabs and newlines are shown as escapes such as \\x1b, and a newline follows.\n" +
			"If another host's write has beaten it, or the other way round, the value of the winner comes last.",
		Args: arguments(1, 1),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		body, err := deadLetter(cmd.Context(), c, ids[0])
		if isGone(err) {
			return noDeadLetter(ids[0])
		}
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.stdout, body)
		}
		return p.printDeadLetter(c, ids[0], body)
	}
	return cmd
}

// deadLetter asks for a dead letter with its value.
func deadLetter(ctx context.Context, c *client, id string) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: surface("dead-letters", id)})
}

// isGone reports whether the daemon has answered that there is no such dead letter.
func isGone(err error) bool {
	var no *statusError
	return errors.As(err, &no) && no.status == http.StatusNotFound && no.means == ""
}

func noDeadLetter(id string) error {
	return fmt.Errorf("there is no dead letter %s: it may have been retried or deleted", id)
}

func (p *process) printDeadLetter(c *client, id string, body []byte) error {
	var letter struct {
		listedLetter
		Value  *string       `json:"value"` // nil for a delete
		Winner *letterWinner `json:"winner"`
	}
	if err := c.decode(body, &letter); err != nil {
		return err
	}
	if !p.isTerminal(p.stdout) {
		if letter.Value == nil {
			return fmt.Errorf("dead letter %s is a delete, which has no value: --json prints what it has", id)
		}
		_, err := io.WriteString(p.stdout, *letter.Value)
		return err
	}
	written := letter.WrittenAt.moment()
	if letter.Winner != nil {
		written = letter.WrittenAt.instant() // to be compared with the winner's
	}
	facts := [][2]string{
		{"id", string(letter.ID)}, {"state", letter.state()}, {"namespace", string(letter.Namespace)}, {"key", string(letter.Key)}, {"op", string(letter.Op)},
		{"written", written}, {letter.ended(), letter.RefusedAt.moment()},
	}
	if letter.status() != "" {
		facts = append(facts, [2]string{"status", letter.status()})
	}
	err := printFacts(p.screen(), append(facts, [2]string{"error", string(letter.Error)}))
	if err == nil && letter.Value != nil {
		_, err = io.WriteString(p.stdout, "\n"+harmless(*letter.Value)+"\n")
	}
	if err == nil && letter.Winner != nil {
		err = p.printWinner(letter.Winner)
	}
	return err
}

// letterWinner is the state that has beaten a superseded dead letter.
type letterWinner struct {
	Host      cell    `json:"host"`
	WrittenAt cell    `json:"written_at"`
	Value     *string `json:"value"` // nil for a delete
}

func (p *process) printWinner(winner *letterWinner) error {
	who := "this daemon"
	if winner.Host == "other" {
		who = "another host"
	}
	op := "put"
	if winner.Value == nil {
		op = "delete"
	}
	if _, err := io.WriteString(p.stdout, "\n"); err != nil {
		return err
	}
	err := printFacts(p.screen(), [][2]string{{"winner", who}, {"op", op}, {"written", winner.WrittenAt.instant()}})
	if err == nil && winner.Value != nil {
		_, err = io.WriteString(p.stdout, "\n"+harmless(*winner.Value)+"\n")
	}
	return err
}

func newExportCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print all dead letters with their values",
		Example: "  botwired dead-letters export > dead-letters.jsonl\n" +
			"  botwired dead-letters export --namespace my-agent",
		Long: "Print all dead letters with their values, the oldest first: each is one line of JSON.",
		Args: noArguments,
	}
	namespace := namespaceFlag(cmd, "only those of this namespace")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		progress, clearLine := p.exportProgress()
		defer clearLine()
		return eachDeadLetter(cmd.Context(), c, *namespace, func(id string, _ []byte) error {
			body, err := deadLetter(cmd.Context(), c, id)
			if isGone(err) { // retried or deleted meanwhile
				return nil
			}
			if err != nil {
				return err
			}
			var line bytes.Buffer
			if err := json.Compact(&line, body); err != nil {
				return err
			}
			if err := printJSON(p.stdout, line.Bytes()); err != nil {
				return err
			}
			progress()
			return nil
		})
	}
	return cmd
}

// exportProgress keeps a line on the terminal that counts the dead letters. Where there is no
// terminal, or they are on it themselves, it shows nothing. clearLine removes the line.
func (p *process) exportProgress() (progress, clearLine func()) {
	if !p.isTerminal(p.stderr) || p.isTerminal(p.stdout) {
		return func() {}, func() {}
	}
	exported := 0
	progress = func() {
		exported++
		p.showLine(plural(exported, "dead letter") + " exported")
	}
	return progress, func() { p.showLine("") }
}
