package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
)

// shownNamespaces limits how many namespaces the status lists.
const shownNamespaces = 20

func newStatusCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the running daemon",
		GroupID: GroupDaily,
		Example: "  botwired status\n" +
			"  botwired status --watch\n" +
			"  botwired status --json | jq .upstream.state",
		Long: "Show the state of the running daemon: first, in a sentence each, what is wrong and what to do, or that all is\n" +
			"well. Of many namespaces with pending writes, the table has those that wait for something and those with\n" +
			"the most writes. On a terminal, times are said as a distance (\"3 minutes ago\"), and dates are those of this\n" +
			"machine's zone; elsewhere they are RFC 3339 in UTC.\n\n" +
			"With --ready, status only asks whether the daemon can take writes now, and is not about to stop. With\n" +
			"--live, it only asks whether the daemon lives. It exits 0 if so, and 1 if not, and needs no token.",
		Args: NoArguments,
	}
	asJSON := JSONFlag(cmd)
	flags := cmd.Flags()
	all := flags.Bool("all", false, "show all namespaces with pending writes")
	watch := flags.Bool("watch", false, "show it anew every second, until Ctrl-C")
	ready := flags.Bool("ready", false, "only ask whether the daemon is ready to take writes: exit 0 if it is, 1 if not")
	live := flags.Bool("live", false, "only ask whether the daemon lives: exit 0 if it does, 1 if not")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, _ []string) error {
		most := shownNamespaces
		if *all {
			most = math.MaxInt
		}
		switch {
		case *all && *live, *all && *ready, *live && *ready:
			return Usagef("--all, --live and --ready exclude each other: expected one of them at most")
		case *watch && (*live || *ready || *asJSON):
			return Usagef("--watch is for the whole status on a terminal: expected it without --json, --live and --ready")
		case *watch && !p.IsTerminal(p.Stdout):
			return Usagef("--watch draws on a terminal, and standard output is none: expected no --watch")
		}
		switch {
		case *ready:
			return p.askProbe(ctx, c, "readyz", "ready", *asJSON)
		case *live:
			return p.askProbe(ctx, c, "livez", "alive", *asJSON)
		}
		asked := api.Request{Path: api.Surface("status")}
		print := func(w io.Writer) error {
			answer, err := c.Do(ctx, asked)
			if err != nil {
				return err
			}
			s, err := api.ReadStatus(answer.Body)
			switch {
			case err != nil:
				return c.Foreign()
			case *asJSON:
				return term.JSON(w, answer.Body)
			}
			return printStatus(w, s, most)
		}
		if !*watch {
			return print(p.Screen())
		}
		if !*all {
			asked.Query = url.Values{"namespaces": {strconv.Itoa(shownNamespaces)}}
		}
		return p.Watch(ctx, print)
	})
	return cmd
}

// askProbe prints the answer to a probe. It must be the wanted one: another program may answer every
// request with some JSON.
func (p *Program) askProbe(ctx context.Context, c *attach.Client, path, want string, asJSON bool) error {
	var answer struct{ Status string }
	got, err := c.Read(ctx, api.Request{Path: api.Surface(path)}, &answer)
	switch {
	case err != nil:
		return err
	case answer.Status != want:
		return c.Foreign()
	case asJSON:
		return term.JSON(p.Stdout, got.Body)
	}
	_, err = fmt.Fprintln(p.Stdout, want)
	return err
}
