package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// newDiscardCommand deletes the dead letters of the given IDs, or all of them.
func newDiscardCommand(p *process, settings *settingFlags) *cobra.Command {
	d := decision{
		name: "delete", short: "Give dead letters up", done: "deleted",
		example: "  botwired dead-letters delete 17\n" +
			"  botwired dead-letters delete --all --superseded",
		request: func(id string) request {
			return request{method: http.MethodDelete, path: surface("dead-letters", id)}
		},
	}
	cmd := newDecisionCommand(p, settings, d)
	cmd.Long = "Give dead letters up: those of the given IDs, or all of them, of one namespace if it is named.\n" +
		"--all first says how many there are, and asks. It leaves those that come later. With --superseded, it leaves\n" +
		"all but those that a later write to the same key has superseded."
	superseded := cmd.Flags().Bool("superseded", false, "with --all: only those that a later write has superseded")
	yes := cmd.Flags().Bool("yes", false, "with --all: do not ask")
	takeAll(cmd, func(ctx context.Context, namespace string, asJSON bool) error {
		if !*yes && (!p.isTerminal(p.stdin) || !p.isTerminal(p.stderr)) {
			return usagef("--all deletes for good, and there is no terminal to ask at: expected --yes too")
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		ids, err := p.toDelete(ctx, c, namespace, *superseded, *yes)
		if err != nil {
			return err
		}
		done, failed := d.carryOutAll(ctx, c, ids)
		if asJSON {
			return errors.Join(encodeJSON(p.stdout, map[string][]string{d.done: done}), failed)
		}
		fmt.Fprintf(p.stdout, "%s %s\n", d.done, plural(len(done), "dead letter"))
		return failed
	})
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, ids []string) error {
		if *superseded && len(ids) > 0 {
			return usagef("--superseded is for --all: an ID names its dead letter")
		}
		return args(cmd, ids)
	}
	return cmd
}

var errNothingDeleted = errors.New("nothing is deleted")

// toDelete lists the dead letters that there are, or of them only the superseded ones, and
// unless yes asks whether to delete them.
func (p *process) toDelete(ctx context.Context, c *client, namespace string, superseded, yes bool) (ids []string, err error) {
	err = eachDeadLetter(ctx, c, namespace, func(id string, raw []byte) error {
		var letter listedLetter
		if err := c.decode(raw, &letter); err != nil {
			return err
		}
		if !superseded || letter.isSuperseded() {
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil || yes || len(ids) == 0 {
		return ids, err
	}
	of := "all namespaces"
	if namespace != "" {
		of = "the namespace " + namespace
	}
	what := "dead letter"
	if superseded {
		what = "superseded dead letter"
	}
	agreed, err := p.confirm(ctx, fmt.Sprintf("Delete %s of %s for good?", plural(len(ids), what), printable(of)))
	if err == nil && !agreed {
		err = errNothingDeleted
	}
	return ids, err
}

// carryOutAll passes over a dead letter that somebody else has retried or deleted meanwhile.
// It stops at any other error.
func (d decision) carryOutAll(ctx context.Context, c *client, ids []string) (done []string, err error) {
	done = []string{}
	for _, id := range ids {
		if _, err := c.do(ctx, d.request(id)); err == nil {
			done = append(done, id)
		} else if !isGone(err) {
			return done, err
		}
	}
	return done, nil
}

// longestReply bounds what is read of a reply, in bytes.
const longestReply = 1000

// confirm asks at the terminal. Anything but y or yes is a no.
func (p *process) confirm(ctx context.Context, question string) (agreed bool, err error) {
	fmt.Fprint(p.stderr, question+" [y/N] ")
	replied := make(chan string, 1)
	go func() { // which a terminal holds up until the process ends, if nobody replies
		reply, _ := bufio.NewReader(io.LimitReader(p.stdin, longestReply)).ReadString('\n')
		replied <- reply
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return false, ctx.Err()
	case reply := <-replied:
		if !strings.HasSuffix(reply, "\n") {
			fmt.Fprintln(p.stderr)
		}
		reply = strings.ToLower(strings.TrimSpace(reply))
		return reply == "y" || reply == "yes", nil
	}
}
