package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// status is the daemon's status, as far as the commands show it. Any field may be
// absent.
type status struct {
	Version   cell `json:"version"`
	Listen    cell `json:"listen"`
	StartedAt cell `json:"started_at"`
	Uptime    cell `json:"uptime_seconds"`
	DataDir   cell `json:"data_dir"`
	Summary   struct {
		Level  cell `json:"level"`
		Text   cell `json:"text"`
		Since  cell `json:"since"`
		Remedy cell `json:"remedy"`
	} `json:"summary"`
	Reads struct {
		Total    cell `json:"total"`
		Hits     cell `json:"hits"`
		Upstream cell `json:"upstream"`
	} `json:"reads"`
	Writes struct {
		Acknowledged cell `json:"acknowledged"`
		Sent         cell `json:"sent"`
		Saved        cell `json:"saved"`
	} `json:"writes"`
	TimeSaved cell `json:"time_saved_seconds"`
	Disk      struct {
		Journal cell `json:"journal_bytes"`
		Copies  cell `json:"copies_bytes"`
		Free    cell `json:"free_bytes"`
	} `json:"disk"`
	Cache struct {
		Bytes  cell `json:"bytes"`
		Budget cell `json:"budget"`
	} `json:"cache"`
	Ready   cell `json:"ready"` // an older daemon does not say
	Journal struct {
		RefusesWrites cell `json:"refuses_writes"`
		Reason        cell `json:"reason"`
		Since         cell `json:"since"`
	} `json:"journal"`
	Upstream struct {
		URL         cell `json:"url"`
		State       cell `json:"state"`
		Since       cell `json:"since"`
		Reason      cell `json:"reason"`
		LastSuccess cell `json:"last_success_at"`
		Concurrency struct {
			Limit  cell `json:"limit"`
			Now    cell `json:"now"`
			Reason cell `json:"reason"`
		} `json:"concurrency"`
		// Watch is null if upstream does not tell of changes.
		Watch struct {
			Sound   cell `json:"sound"`
			Since   cell `json:"since"`
			Reason  cell `json:"reason"`
			Entries cell `json:"entries"`
			Bytes   cell `json:"bytes"`
			Bucket  cell `json:"bucket"`
			Server  cell `json:"server"`
			Lost    cell `json:"lost"`
		} `json:"watch"`
	} `json:"upstream"`
	Identity struct {
		Newest struct {
			Detail cell `json:"detail"`
			At     cell `json:"at"`
		} `json:"newest_doubt"`
	} `json:"identity"`
	backlog
	DeadLetters     cell              `json:"dead_letters"`
	OpenDeadLetters cell              `json:"open_dead_letters"` // an older daemon does not say
	Rebuilding      cell              `json:"rebuilding"`
	Namespaces      []namespaceStatus `json:"namespaces"`
	AllNamespaces   cell              `json:"namespaces_total"` // more than Namespaces if their number was limited
}

type backlog struct {
	Pending       cell `json:"pending"`
	PendingBytes  cell `json:"pending_bytes"`
	OldestPending cell `json:"oldest_pending_seconds"`
}

type namespaceStatus struct {
	Namespace cell `json:"namespace"`
	backlog
	Waits        wait `json:"waits"`
	Paused       cell `json:"paused"` // an older daemon says no more
	ReadsRefused cell `json:"reads_refused"`
	Quota        struct {
		Limit   cell `json:"limit"`
		Used    cell `json:"used"`
		Linger  cell `json:"linger_seconds"`
		RunsOut cell `json:"runs_out_at"`
	} `json:"quota"`
	Suspect struct {
		Since     cell `json:"since"`
		Missing   cell `json:"missing"`
		Of        cell `json:"of"`
		Restoring cell `json:"restoring"`
	} `json:"suspect"`
	Bytes        cell `json:"bytes"`
	BytesLimit   cell `json:"bytes_limit"`
	LimitLearned cell `json:"bytes_limit_learned_until"`
	Foreign      struct {
		Found cell `json:"found"`
		At    cell `json:"last_found_at"`
		Key   cell `json:"last_key"`
	} `json:"foreign_writes"`
}

// shownNamespaces bounds how many namespaces a table of the status has.
const shownNamespaces = 20

func newStatusCommand(settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the running daemon",
		GroupID: groupDaily,
		Example: "  botwired status\n" +
			"  botwired status --watch\n" +
			"  botwired status --json | jq .upstream.state",
		Long: "Show the state of the running daemon: first, in one sentence, whether all is well, or what is wrong and what\n" +
			"to do. Of many namespaces with pending writes, the table has those that wait for something and those with\n" +
			"the most writes. On a terminal, times are said as a distance (\"3 minutes ago\"), and dates are those of this\n" +
			"machine's zone; elsewhere they are RFC 3339 in UTC.\n\n" +
			"With --ready, status only asks whether the daemon can take writes now, and is not about to stop. With\n" +
			"--live, it only asks whether the daemon lives. It exits 0 if so, and 1 if not, and needs no token.",
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
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
		print := func(w io.Writer, c *client, body []byte) error { return printStatus(w, c, body, most) }
		asked := request{method: http.MethodGet, path: surface("status")}
		switch {
		case *all && *live, *all && *ready, *live && *ready:
			return usagef("--all, --live and --ready exclude each other: expected one of them at most")
		case *watch && (*live || *ready || *asJSON):
			return usagef("--watch is for the whole status on a terminal: expected it without --json, --live and --ready")
		case *ready:
			asked.path, print = surface("readyz"), printProbe("ready", *asJSON)
		case *live:
			asked.path, print = surface("livez"), printProbe("alive", *asJSON)
		case *watch:
			if !*all {
				asked.query = url.Values{"namespaces": {strconv.Itoa(shownNamespaces)}}
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
func printProbe(want string, asJSON bool) func(w io.Writer, c *client, body []byte) error {
	return func(w io.Writer, c *client, body []byte) error {
		var answer struct{ Status cell }
		if err := c.decode(body, &answer); err != nil {
			return err
		}
		if string(answer.Status) != want {
			return fmt.Errorf("another program than botwired listens at %s: its answer is not one of botwired's", c.listen)
		}
		if asJSON {
			return printJSON(w, body)
		}
		_, err := fmt.Fprintln(w, want)
		return err
	}
}

// readStatus fails if the answer is not botwired's: another program may answer every
// request with some JSON.
func readStatus(c *client, body []byte) (s status, err error) {
	if err := c.decode(body, &s); err != nil {
		return s, err
	}
	if s.Version == "" || s.Pending == "" {
		return s, fmt.Errorf("another program than botwired listens at %s: its answer is no status of botwired's", c.listen)
	}
	return s, nil
}

func printStatusJSON(w io.Writer, c *client, body []byte) error {
	if _, err := readStatus(c, body); err != nil {
		return err
	}
	return printJSON(w, body)
}
