package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

// status is the daemon's status, as far as the commands show it. Any field may be
// absent.
type status struct {
	Version  cell `json:"version"`
	Upstream struct {
		URL         cell `json:"url"`
		State       cell `json:"state"`
		Since       cell `json:"since"`
		Reason      cell `json:"reason"`
		LastSuccess cell `json:"last_success_at"`
	} `json:"upstream"`
	backlog
	DeadLetters cell              `json:"dead_letters"`
	Rebuilding  cell              `json:"rebuilding"`
	Namespaces  []namespaceStatus `json:"namespaces"`
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
}

// waits returns why nothing of the namespace goes upstream, or else why upstream refuses
// its reads.
func (n namespaceStatus) waits() string {
	switch {
	case n.Waits.Why != "":
		return n.Waits.String()
	case n.Paused == "" && n.ReadsRefused != "":
		return "reads: " + string(n.ReadsRefused)
	}
	return string(n.Paused)
}

// upstream says how upstream does, and since when and why if it does not do well.
func (s *status) upstream() string {
	u := s.Upstream
	text := u.URL.or("unknown") + " is " + u.State.or("unknown")
	if u.Reason == "" {
		return text
	}
	return fmt.Sprintf("%s since %s: %s (it last answered: %s)", text, u.Since.moment(), u.Reason, u.LastSuccess.or("not since the start"))
}

func newStatusCommand(settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the running daemon",
		Args:  noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		print := printStatus
		if *asJSON {
			print = printStatusJSON
		}
		return settings.show(cmd.Context(), request{method: http.MethodGet, path: surface("status")}, false, print)
	}
	return cmd
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

func printStatus(w io.Writer, c *client, body []byte) error {
	s, err := readStatus(c, body)
	if err != nil {
		return err
	}
	pending := string(s.Pending)
	if s.Pending != "0" {
		writes := "writes"
		if s.Pending == "1" {
			writes = "write"
		}
		pending = fmt.Sprintf("%s %s, %s, the oldest %s", s.Pending, writes, s.PendingBytes.size(), s.OldestPending.age())
	}
	if s.Rebuilding == "true" {
		pending += ", so far: botwired is still reading its journal"
	}
	err = printFacts(w, [][2]string{
		{"version", string(s.Version)},
		{"upstream", s.upstream()},
		{"pending", pending},
		{"dead letters", s.DeadLetters.or("unknown")},
	})
	if err != nil || len(s.Namespaces) == 0 {
		return err
	}
	rows := make([][]string, 0, len(s.Namespaces))
	for _, n := range s.Namespaces {
		oldest := n.OldestPending.age()
		if n.Pending == "0" {
			oldest = ""
		}
		rows = append(rows, []string{string(n.Namespace), string(n.Pending), n.PendingBytes.size(), oldest, n.waits()})
	}
	fmt.Fprintln(w)
	return printTable(w, []string{"NAMESPACE", "PENDING", "SIZE", "OLDEST", "WAITS"}, rows)
}
