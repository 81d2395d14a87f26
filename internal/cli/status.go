package cli

import (
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

// status is the daemon's status, as far as the commands show it. Any field may be
// absent.
type status struct {
	Version   term.Cell `json:"version"`
	Listen    term.Cell `json:"listen"`
	StartedAt term.Cell `json:"started_at"`
	Uptime    term.Cell `json:"uptime_seconds"`
	DataDir   term.Cell `json:"data_dir"`
	Summary   struct {
		Level  term.Cell `json:"level"`
		Text   term.Cell `json:"text"`
		Since  term.Cell `json:"since"`
		Remedy term.Cell `json:"remedy"`
	} `json:"summary"`
	Reads struct {
		Total    term.Cell `json:"total"`
		Hits     term.Cell `json:"hits"`
		Upstream term.Cell `json:"upstream"`
	} `json:"reads"`
	Writes struct {
		Acknowledged term.Cell `json:"acknowledged"`
		Sent         term.Cell `json:"sent"`
		Saved        term.Cell `json:"saved"`
	} `json:"writes"`
	TimeSaved term.Cell `json:"time_saved_seconds"`
	Disk      struct {
		Journal term.Cell `json:"journal_bytes"`
		Copies  term.Cell `json:"copies_bytes"`
		Free    term.Cell `json:"free_bytes"`
	} `json:"disk"`
	Cache struct {
		Bytes  term.Cell `json:"bytes"`
		Budget term.Cell `json:"budget"`
	} `json:"cache"`
	Ready   term.Cell `json:"ready"` // an older daemon does not say
	Journal struct {
		RefusesWrites term.Cell `json:"refuses_writes"`
		Reason        term.Cell `json:"reason"`
		Since         term.Cell `json:"since"`
	} `json:"journal"`
	Upstream struct {
		URL         term.Cell `json:"url"`
		State       term.Cell `json:"state"`
		Since       term.Cell `json:"since"`
		Reason      term.Cell `json:"reason"`
		LastSuccess term.Cell `json:"last_success_at"`
		Concurrency struct {
			Limit  term.Cell `json:"limit"`
			Now    term.Cell `json:"now"`
			Reason term.Cell `json:"reason"`
		} `json:"concurrency"`
		// Watch is null if upstream does not tell of changes.
		Watch struct {
			Sound   term.Cell `json:"sound"`
			Since   term.Cell `json:"since"`
			Reason  term.Cell `json:"reason"`
			Entries term.Cell `json:"entries"`
			Bytes   term.Cell `json:"bytes"`
			Bucket  term.Cell `json:"bucket"`
			Server  term.Cell `json:"server"`
			Lost    term.Cell `json:"lost"`
		} `json:"watch"`
	} `json:"upstream"`
	Identity struct {
		Newest struct {
			Detail term.Cell `json:"detail"`
			At     term.Cell `json:"at"`
		} `json:"newest_doubt"`
	} `json:"identity"`
	backlog
	DeadLetters     term.Cell         `json:"dead_letters"`
	OpenDeadLetters term.Cell         `json:"open_dead_letters"` // an older daemon does not say
	Rebuilding      term.Cell         `json:"rebuilding"`
	Namespaces      []namespaceStatus `json:"namespaces"`
	AllNamespaces   term.Cell         `json:"namespaces_total"` // more than Namespaces if their number was limited
}

type backlog struct {
	Pending       term.Cell `json:"pending"`
	PendingBytes  term.Cell `json:"pending_bytes"`
	OldestPending term.Cell `json:"oldest_pending_seconds"`
}

type namespaceStatus struct {
	Namespace term.Cell `json:"namespace"`
	backlog
	Waits        wait      `json:"waits"`
	Paused       term.Cell `json:"paused"` // an older daemon says no more
	ReadsRefused term.Cell `json:"reads_refused"`
	Quota        struct {
		Limit   term.Cell `json:"limit"`
		Used    term.Cell `json:"used"`
		Linger  term.Cell `json:"linger_seconds"`
		RunsOut term.Cell `json:"runs_out_at"`
	} `json:"quota"`
	Suspect struct {
		Since     term.Cell `json:"since"`
		Missing   term.Cell `json:"missing"`
		Of        term.Cell `json:"of"`
		Restoring term.Cell `json:"restoring"`
	} `json:"suspect"`
	Bytes        term.Cell `json:"bytes"`
	BytesLimit   term.Cell `json:"bytes_limit"`
	LimitLearned term.Cell `json:"bytes_limit_learned_until"`
}

// shownNamespaces bounds how many namespaces a table of the status has.
const shownNamespaces = 20

func newStatusCommand(settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the running daemon",
		GroupID: GroupDaily,
		Example: "  botwired status\n" +
			"  botwired status --watch\n" +
			"  botwired status --json | jq .upstream.state",
		Long: "Show the state of the running daemon: first, in one sentence, whether all is well, or what is wrong and what\n" +
			"to do. Of many namespaces with pending writes, the table has those that wait for something and those with\n" +
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
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		most := shownNamespaces
		if *all {
			most = math.MaxInt
		}
		print := func(w io.Writer, c *attach.Client, body []byte) error { return printStatus(w, c, body, most) }
		asked := api.Request{Path: api.Surface("status")}
		switch {
		case *all && *live, *all && *ready, *live && *ready:
			return Usagef("--all, --live and --ready exclude each other: expected one of them at most")
		case *watch && (*live || *ready || *asJSON):
			return Usagef("--watch is for the whole status on a terminal: expected it without --json, --live and --ready")
		case *ready:
			asked.Path, print = api.Surface("readyz"), printProbe("ready", *asJSON)
		case *live:
			asked.Path, print = api.Surface("livez"), printProbe("alive", *asJSON)
		case *watch:
			if !*all {
				asked.Query = url.Values{"namespaces": {strconv.Itoa(shownNamespaces)}}
			}
			return settings.watch(cmd.Context(), asked, print)
		case *asJSON:
			print = printStatusJSON
		}
		return settings.show(cmd.Context(), asked, print)
	}
	return cmd
}

// printProbe prints the answer to a probe, which has to be the one wanted: another program
// may answer every request with some JSON.
func printProbe(want string, asJSON bool) func(w io.Writer, c *attach.Client, body []byte) error {
	return func(w io.Writer, c *attach.Client, body []byte) error {
		var answer struct{ Status term.Cell }
		if err := c.Decode(body, &answer); err != nil {
			return err
		}
		if string(answer.Status) != want {
			return fmt.Errorf("another program than botwired listens at %s: its answer is not one of botwired's", c.Listen)
		}
		if asJSON {
			return term.JSON(w, body)
		}
		_, err := fmt.Fprintln(w, want)
		return err
	}
}

// readStatus fails if the answer is not botwired's: another program may answer every
// request with some JSON.
func readStatus(c *attach.Client, body []byte) (s status, err error) {
	if err := c.Decode(body, &s); err != nil {
		return s, err
	}
	if s.Version == "" || s.Pending == "" {
		return s, fmt.Errorf("another program than botwired listens at %s: its answer is no status of botwired's", c.Listen)
	}
	return s, nil
}

func printStatusJSON(w io.Writer, c *attach.Client, body []byte) error {
	if _, err := readStatus(c, body); err != nil {
		return err
	}
	return term.JSON(w, body)
}
