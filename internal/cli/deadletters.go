package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/keyname"
	"github.com/botwired/botwired/internal/words"
)

func newDeadLettersCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dead-letters",
		Short:   "List the writes that upstream refused",
		GroupID: GroupDaily,
		Example: "  botwired dead-letters\n" +
			"  botwired dead-letters --json | jq '.dead_letters[].error'",
		Long: "List the writes that upstream has refused for good, and those that botwired pending drop has made dead letters.\n" +
			"The open ones come first: retry or delete them. A later write to the same key supersedes a dead letter, once\n" +
			"upstream has taken it. Nobody has to decide on a superseded one.\n\n" +
			"What has lost a conflict of two hosts that write to the same key is in the key's history: botwired history --lost.",
		Args: NoArguments,
	}
	asJSON := JSONFlag(cmd)
	namespace := namespaceFlag(cmd, "only those of this namespace")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, _ []string) error {
		letters, err := deadLetters(ctx, c, *namespace)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return term.EncodeJSON(p.Stdout, api.DeadLetters{DeadLetters: letters})
		}
		return printDeadLetters(p.Screen(), letters)
	})
	cmd.AddCommand(newShowCommand(p, settings), newRetryCommand(p, settings), newDeleteLettersCommand(p, settings))
	return cmd
}

// deadLetters returns all dead letters, or those of a namespace, oldest first.
func deadLetters(ctx context.Context, c *attach.Client, namespace string) ([]api.ListedDeadLetter, error) {
	letters, err := c.DeadLetters(ctx)
	if namespace != "" {
		letters = slices.DeleteFunc(letters, func(l api.ListedDeadLetter) bool { return l.Namespace != namespace })
	}
	return letters, err
}

const openLetter = "open"

// letterState returns openLetter for a dead letter that needs a decision, and otherwise why it does
// not.
func letterState(l *api.ListedDeadLetter) string {
	switch {
	case l.SupersededBy != 0:
		return fmt.Sprintf("superseded by %d", l.SupersededBy)
	case l.Kind == "dropped":
		return "dropped"
	}
	return openLetter
}

// writtenAt returns "" for a write that a restore has made: its time says only that it gives way to any other.
func writtenAt(l *api.ListedDeadLetter, format func(time.Time) string) string {
	if l.WrittenAt == api.RestoredAt {
		return ""
	}
	return format(term.Unix(l.WrittenAt))
}

// letterStatus returns the HTTP status, or "" for a write that upstream has not answered.
func letterStatus(l *api.ListedDeadLetter) string {
	if l.Status == 0 {
		return ""
	}
	return strconv.Itoa(l.Status)
}

func printDeadLetters(w io.Writer, letters []api.ListedDeadLetter) error {
	var open, others [][]string
	for _, l := range letters {
		row := []string{l.ID, letterState(&l), strconv.FormatUint(l.Seq, 10), l.Namespace, keyname.Format(l.Key), l.Op,
			writtenAt(&l, func(at time.Time) string { return term.Moment(w, at) }), letterStatus(&l), l.Error}
		if letterState(&l) == openLetter {
			open = append(open, row)
		} else {
			others = append(others, row)
		}
	}
	header := []string{"ID", "STATE", "SEQ", "NAMESPACE", "KEY", "OP", "WRITTEN", "STATUS", "ERROR"}
	return term.Table(w, header, append(open, others...))
}

// forLetters makes a command take at most most IDs, or --all, which --namespace may narrow.
func forLetters(cmd *cobra.Command, most int) (all *bool, namespace *string) {
	all = cmd.Flags().Bool("all", false, "all dead letters, instead of the given ones")
	namespace = namespaceFlag(cmd, "with --all: only those of this namespace")
	cmd.Args = func(cmd *cobra.Command, ids []string) error {
		switch {
		case *all:
			return NoArguments(cmd, ids)
		case *namespace != "":
			return Usagef("--namespace is for --all: an ID names its dead letter")
		}
		return arguments(1, most)(cmd, ids)
	}
	return all, namespace
}

func newShowCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID | --all",
		Short: "Print the value of a dead letter",
		Example: "  botwired dead-letters show 17\n" +
			"  botwired dead-letters show 17 > value.txt    # to the byte\n" +
			"  botwired dead-letters show --all > dead-letters.jsonl",
		Long: "Print the value of a dead letter to the byte. On a terminal, what is known of the dead letter comes first,\n" +
			"control characters other than tabs and newlines are shown as escapes such as \\x1b, and a newline follows.\n\n" +
			"With --all, print all dead letters with their values, the oldest first: each is one line of JSON.",
	}
	asJSON := JSONFlag(cmd)
	all, namespace := forLetters(cmd, 1)
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, ids []string) error {
		if *all {
			return p.showAll(ctx, c, *namespace)
		}
		r := api.Request{Path: api.Surface("dead-letters", ids[0])}
		err := ask(ctx, p, c, r, *asJSON, p.printDeadLetter)
		if isGone(err) {
			return noDeadLetter(ids[0])
		}
		return err
	})
	return cmd
}

func (p *Program) showAll(ctx context.Context, c *attach.Client, namespace string) error {
	letters, err := deadLetters(ctx, c, namespace)
	for _, l := range letters {
		letter, err := c.Do(ctx, api.Request{Path: api.Surface("dead-letters", l.ID)})
		if isGone(err) { // retried or deleted meanwhile
			continue
		}
		if err == nil {
			err = term.JSON(p.Stdout, letter.Body)
		}
		if err != nil {
			return err
		}
	}
	return err
}

func isGone(err error) bool {
	no, refused := errors.AsType[*api.Refused](err)
	return refused && no.Status == http.StatusNotFound && no.Detail() != "Not Found" // the answer of another program
}

func noDeadLetter(id string) error {
	return fmt.Errorf("there is no dead letter %s: it may have been retried or deleted", id)
}

func (p *Program) printDeadLetter(letter *api.DeadLetter) error {
	if !p.IsTerminal(p.Stdout) {
		if letter.Value == nil {
			return fmt.Errorf("dead letter %s is a delete, which has no value: --json prints what it has", letter.ID)
		}
		_, err := io.WriteString(p.Stdout, *letter.Value)
		return err
	}
	facts := [][2]string{
		{"id", letter.ID}, {"state", letterState(&letter.ListedDeadLetter)}, {"namespace", letter.Namespace}, {"key", keyname.Format(letter.Key)}, {"op", letter.Op},
		{"written", cmp.Or(writtenAt(&letter.ListedDeadLetter, term.Plain), "by a restore")}, {"ended", term.Plain(term.Unix(letter.RefusedAt))},
	}
	if letter.Author != "" {
		facts = append(facts, [2]string{"author", letter.Author})
	}
	if status := letterStatus(&letter.ListedDeadLetter); status != "" {
		facts = append(facts, [2]string{"status", status})
	}
	err := term.Facts(p.Screen(), append(facts, [2]string{"error", letter.Error}))
	if err == nil && letter.Value != nil {
		_, err = io.WriteString(p.Stdout, "\n"+term.Harmless(*letter.Value)+"\n")
	}
	return err
}

func newRetryCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry ID... | --all",
		Short: "Make dead letters pending again",
		Example: "  botwired dead-letters retry 17 18\n" +
			"  botwired dead-letters retry --all --namespace my-agent",
		Long: "Make dead letters pending again: those of the given IDs, or all of them, of one namespace if it is named.\n" +
			"--all first asks: each one counts against the quota. A dead letter is left as it is if a newer write to its\n" +
			"entry is known: the retry would undo that one. --force retries the given ones all the same. --all leaves those\n" +
			"that a person has dropped, too.",
	}
	force := cmd.Flags().Bool("force", false, "with IDs: also undo newer writes to the same entries")
	d := &decision{Program: p, did: "retried", all: p.retryAll}
	d.request = func(id string) api.Request {
		r := api.Request{Method: http.MethodPost, Path: api.Surface("dead-letters", id, "retry")}
		if *force {
			r.Query = url.Values{"force": {"true"}}
		}
		return r
	}
	d.command(cmd, settings)
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, ids []string) error {
		if *force && len(ids) == 0 {
			return Usagef("--force is for IDs: --all undoes no newer write")
		}
		return args(cmd, ids)
	}
	return cmd
}

const retryAllTime = 24 * time.Hour

func (p *Program) retryAll(ctx context.Context, c *attach.Client, namespace string, yes, asJSON bool) error {
	if !yes {
		question := "Retry all dead letters of " + ofNamespace(namespace) + " that upstream has refused? Each one counts against the quota."
		if err := p.Confirm(ctx, question); err != nil {
			return err
		}
	}
	r := api.Request{Method: http.MethodPost, Path: api.Surface("dead-letters", "retry"), Within: retryAllTime}
	if namespace != "" {
		r.Query = url.Values{"namespace": {namespace}}
	}
	return ask(ctx, p, c, r, asJSON, func(done *api.Retried) error {
		text := "retried " + words.Plural(done.Retried, "dead letter")
		if done.Skipped > 0 {
			text += fmt.Sprintf(", skipped %d: a newer write to the same entry is known, or a person has dropped them", done.Skipped)
		}
		_, err := fmt.Fprintln(p.Stdout, text)
		return err
	})
}

func ofNamespace(namespace string) string {
	if namespace == "" {
		return "all namespaces"
	}
	return "the namespace " + namespace
}

func newDeleteLettersCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete ID... | --all",
		Short: "Give dead letters up",
		Example: "  botwired dead-letters delete 17\n" +
			"  botwired dead-letters delete --all --namespace my-agent",
		Long: "Give dead letters up: those of the given IDs, or all of them, of one namespace if it is named.\n" +
			"--all first says how many there are, and asks. It leaves those that come later.",
	}
	d := &decision{Program: p, did: "deleted"}
	d.request = func(id string) api.Request {
		return api.Request{Method: http.MethodDelete, Path: api.Surface("dead-letters", id)}
	}
	d.all = func(ctx context.Context, c *attach.Client, namespace string, yes, asJSON bool) error {
		letters, err := deadLetters(ctx, c, namespace)
		if err == nil && !yes && len(letters) > 0 {
			err = p.Confirm(ctx, fmt.Sprintf("Delete %s of %s for good?", words.Plural(len(letters), "dead letter"), ofNamespace(namespace)))
		}
		if err != nil {
			return err
		}
		ids := make([]string, len(letters))
		for i, l := range letters {
			ids[i] = l.ID
		}
		return d.carryOut(ctx, c, ids, true, asJSON)
	}
	d.command(cmd, settings)
	return cmd
}

type decision struct {
	*Program
	did     string // what was done to a dead letter
	request func(id string) api.Request
	all     func(ctx context.Context, c *attach.Client, namespace string, yes, asJSON bool) error // asks first unless yes is set
}

// command makes a command retry or delete the given dead letters, or all of them.
func (d *decision) command(cmd *cobra.Command, settings *Settings) {
	asJSON := JSONFlag(cmd)
	all, namespace := forLetters(cmd, math.MaxInt)
	yes := cmd.Flags().Bool("yes", false, "with --all: do not ask")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, ids []string) error {
		if err := d.mayAsk(*yes || !*all, "is about all dead letters"); err != nil {
			return err
		}
		if *all {
			return d.all(ctx, c, *namespace, *yes, *asJSON)
		}
		return d.carryOut(ctx, c, ids, false, *asJSON)
	})
}

// carryOut goes on after a dead letter that cannot be retried or deleted, and stops at any other error.
// With all, it skips dead letters that somebody else has retried or deleted meanwhile.
func (d *decision) carryOut(ctx context.Context, c *attach.Client, ids []string, all, asJSON bool) error {
	done := []string{}
	var refused []string
	var failed error
	for _, id := range ids {
		_, err := c.Do(ctx, d.request(id))
		switch {
		case err == nil:
			done = append(done, id)
		case isGone(err) && all:
		case isGone(err):
			refused = append(refused, noDeadLetter(id).Error())
		case api.IsRefused(err, http.StatusConflict):
			refused = append(refused, fmt.Sprintf("dead letter %s: a newer write to its entry is known, and the retry would undo it: "+
				"--force retries it all the same", id))
		default:
			failed = err
		}
		if failed != nil {
			break
		}
	}
	switch text := strings.Join(refused, "; "); {
	case text != "" && failed != nil:
		failed = fmt.Errorf("%s; %w", text, failed)
	case text != "":
		failed = errors.New(text)
	}
	switch {
	case asJSON:
		return errors.Join(term.EncodeJSON(d.Stdout, map[string][]string{d.did: done}), failed)
	case len(done) > 0 || failed == nil:
		fmt.Fprintf(d.Stdout, "%s %s\n", d.did, words.Plural(len(done), "dead letter"))
	}
	return failed
}
