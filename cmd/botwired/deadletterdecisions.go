package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// newRetryCommand retries the dead letters of the given IDs, or all of them.
func newRetryCommand(p *process, settings *settingFlags) *cobra.Command {
	var force *bool
	cmd := newDecisionCommand(p, settings, decision{
		name: "retry", short: "Make dead letters pending again", done: "retried",
		example: "  botwired dead-letters retry 17 18\n" +
			"  botwired dead-letters retry --all --namespace my-agent",
		request: func(id string) request {
			r := request{method: http.MethodPost, path: surface("dead-letters", id, "retry")}
			if *force {
				r.query = url.Values{"force": {"true"}}
			}
			return r
		},
	})
	cmd.Long = "Make dead letters pending again: those of the given IDs, or all of them, of one namespace if it is named.\n" +
		"At a terminal, --all first asks if there are more than " + strconv.Itoa(manyLetters) + ": each one counts against the quota.\n" +
		"A dead letter is left as it is if a newer write to its entry is known: the retry would undo that one.\n" +
		"--force retries the given ones all the same. --all leaves those that a person has dropped, too."
	force = cmd.Flags().Bool("force", false, "also undo newer writes to the same entries")
	yes := cmd.Flags().Bool("yes", false, "with --all: do not ask, however many there are")
	takeAll(cmd, func(ctx context.Context, namespace string, asJSON bool) error {
		if *force {
			return usagef("--force is for IDs: --all undoes no newer write")
		}
		return retryAll(ctx, p, settings, namespace, *yes, asJSON)
	})
	return cmd
}

// takeAll has a command for IDs take --all too, and with it --namespace.
func takeAll(cmd *cobra.Command, run func(ctx context.Context, namespace string, asJSON bool) error) {
	cmd.Use += " | --all"
	all := cmd.Flags().Bool("all", false, "all dead letters, instead of the given ones")
	namespace := namespaceFlag(cmd, "with --all: only those of this namespace")
	byID, runByID := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, ids []string) error {
		switch {
		case *all:
			return noArguments(cmd, ids)
		case *namespace != "":
			return usagef("--namespace is for --all: an ID names its dead letter")
		}
		return byID(cmd, ids)
	}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if !*all {
			return runByID(cmd, ids)
		}
		asJSON, err := cmd.Flags().GetBool("json")
		if err != nil {
			return err
		}
		return run(cmd.Context(), *namespace, asJSON)
	}
}

func retryAll(ctx context.Context, p *process, settings *settingFlags, namespace string, yes, asJSON bool) error {
	c, err := settings.connect()
	if err != nil {
		return err
	}
	if !yes && p.isTerminal(p.stdin) && p.isTerminal(p.stderr) {
		if err := confirmRetry(ctx, p, c, namespace); err != nil {
			return err
		}
	}
	r := request{method: http.MethodPost, path: surface("dead-letters", "retry")}
	if namespace != "" {
		r.query = url.Values{"namespace": {namespace}}
	}
	stop := p.showProgress(ctx, func(ctx context.Context) string {
		left := statusNow(ctx, c).OpenDeadLetters
		if left == "" {
			return ""
		}
		return plural(left.number(), "dead letter") + " left to retry"
	})
	body, err := c.wait(ctx, r, math.MaxInt64) // for as long as it takes
	stop()
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
		text += fmt.Sprintf(", skipped %d: a newer write to the same entry is known, or a person has dropped them", skipped)
	}
	_, err = fmt.Fprintln(p.stdout, text)
	return err
}

// manyLetters is how many dead letters --all retries without a question.
const manyLetters = 100

var errNothingRetried = errors.New("nothing is retried")

// confirmRetry asks if there are many open dead letters.
func confirmRetry(ctx context.Context, p *process, c *client, namespace string) error {
	open := 0
	err := eachDeadLetter(ctx, c, namespace, func(_ string, raw []byte) error {
		var letter listedLetter
		if err := c.decode(raw, &letter); err != nil {
			return err
		}
		if letter.state() == openLetter {
			open++
		}
		return nil
	})
	if err != nil || open <= manyLetters {
		return err
	}
	agreed, err := p.confirm(ctx, fmt.Sprintf("Retry %s? Each one counts against the quota.", plural(open, "dead letter")))
	if err == nil && !agreed {
		err = errNothingRetried
	}
	return err
}

// decision is what a person decides about dead letters.
type decision struct {
	name, short, done string
	example           string
	request           func(id string) request
}

func newDecisionCommand(p *process, settings *settingFlags, d decision) *cobra.Command {
	cmd := &cobra.Command{
		Use:     d.name + " ID...",
		Short:   d.short,
		Example: d.example,
		Args:    arguments(1, math.MaxInt),
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
		case isGone(err):
			refused = append(refused, noDeadLetter(id).Error())
		case errors.As(err, &no) && no.status == http.StatusConflict:
			refused = append(refused, fmt.Sprintf("dead letter %s: a newer write to its entry is known, and the retry would undo it: "+
				"--force retries it all the same", id))
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
