package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// status is the daemon's status, as far as the commands show it. Any field may be
// absent.
type status struct {
	Version cell `json:"version"`
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
}

// refusesWrites says that the daemon refuses writes, since when and why; empty if it
// takes them.
func (s *status) refusesWrites() string {
	switch {
	case s.Journal.RefusesWrites != "true":
		return ""
	case s.Journal.Since == "":
		return "refused: " + string(s.Journal.Reason)
	}
	return "refused since " + s.Journal.Since.moment() + ": " + string(s.Journal.Reason)
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
		Limit  cell `json:"limit"`
		Used   cell `json:"used"`
		Linger cell `json:"linger_seconds"`
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

// foreign says that others write to the namespace, which is set exclusive; empty if they do not.
func (n namespaceStatus) foreign() string {
	if n.Foreign.Found == "" {
		return ""
	}
	return fmt.Sprintf("%s is set exclusive, and somebody else writes to it: %s found, the last one of %s at %s; botwired does not see such writes in time",
		n.Namespace, plural(n.Foreign.Found.number(), "write"), n.Foreign.Key, n.Foreign.At.moment())
}

// nearFull is the percentage of its limit from which on a namespace is nearly full.
const nearFull = 80

// full says how full the namespace is, and what that means; empty if it is not nearly full.
func (n namespaceStatus) full() string {
	bytes, limit := n.Bytes.number(), n.BytesLimit.number()
	if n.BytesLimit == "" || bytes < limit/100*nearFull+limit%100*nearFull/100 {
		return ""
	}
	text := fmt.Sprintf("%s holds %d of the %d bytes that quota.namespace_bytes allows", n.Namespace, bytes, limit)
	if n.LimitLearned != "" {
		text = fmt.Sprintf("%s holds %d bytes, and upstream has called it full at %d, which counts until %s", n.Namespace, bytes, limit, n.LimitLearned.moment())
	}
	if bytes < limit {
		return text + ": a write that would cross this is refused with 413"
	}
	return text + ": a write that makes it larger is refused with 413 until entries are deleted"
}

// quota says how much of the namespace's quota is used, and how long a write waits for its
// sake.
func (n namespaceStatus) quota() string {
	if n.Quota.Limit == "" {
		return ""
	}
	text := string(n.Quota.Used) + " of " + string(n.Quota.Limit)
	if seconds, err := strconv.ParseFloat(string(n.Quota.Linger), 64); err == nil && seconds >= 1 {
		text += ", writes wait " + n.Quota.Linger.age()
	}
	return text
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
	return fmt.Sprintf("%s since %s: %s (%s)", text, u.Since.moment(), u.Reason, lastAnswered(u.LastSuccess))
}

func lastAnswered(at cell) string {
	if at == "" {
		return "it has not answered since the start"
	}
	return "it last answered: " + string(at)
}

// shownNamespaces bounds how many namespaces a table of the status has.
const shownNamespaces = 20

func newStatusCommand(settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the running daemon",
		GroupID: groupDaily,
		Example: "  botwired status\n" +
			"  botwired status --json | jq .upstream.state",
		Long: "Show the state of the running daemon. Of many namespaces with pending writes, the table has those\n" +
			"that wait for something and those with the most writes.\n\n" +
			"With --ready, status only asks whether the daemon can take writes now, and is not about to stop. With\n" +
			"--live, it only asks whether the daemon lives. It exits 0 if so, and 1 if not, and needs no token.",
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	all := cmd.Flags().Bool("all", false, "show all namespaces with pending writes")
	ready := cmd.Flags().Bool("ready", false, "only ask whether the daemon is ready to take writes: exit 0 if it is, 1 if not")
	live := cmd.Flags().Bool("live", false, "only ask whether the daemon lives: exit 0 if it does, 1 if not")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case *all && *live, *all && *ready, *live && *ready:
			return usagef("--all, --live and --ready exclude each other: expected one of them at most")
		case *ready:
			return settings.show(cmd.Context(), request{method: http.MethodGet, path: surface("readyz")}, printProbe("ready", *asJSON))
		case *live:
			return settings.show(cmd.Context(), request{method: http.MethodGet, path: surface("livez")}, printProbe("alive", *asJSON))
		}
		most := shownNamespaces
		if *all {
			most = math.MaxInt
		}
		print := func(w io.Writer, c *client, body []byte) error { return printStatus(w, c, body, most) }
		if *asJSON {
			print = printStatusJSON
		}
		return settings.show(cmd.Context(), request{method: http.MethodGet, path: surface("status")}, print)
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

func printStatus(w io.Writer, c *client, body []byte, most int) error {
	s, err := readStatus(c, body)
	if err != nil {
		return err
	}
	var facts [][2]string
	if writes := s.refusesWrites(); writes != "" {
		facts = append(facts, [2]string{"writes", writes})
	} else if s.Ready == "false" {
		facts = append(facts, [2]string{"ready", "no: botwired is stopping"})
	}
	if lost := s.suspects(); lost != "" {
		facts = append(facts, [2]string{"suspect", lost})
	}
	letters, decide := s.deadLetters()
	if decide {
		facts = append(facts, [2]string{"dead letters", letters})
	}
	facts = append(facts, [2]string{"version", string(s.Version)}, [2]string{"upstream", s.upstream()})
	if c := s.Upstream.Concurrency; c.Reason != "" {
		facts = append(facts, [2]string{"concurrency", fmt.Sprintf("%s of %s: %s", c.Now, c.Limit, c.Reason)})
	}
	if doubt := s.Identity.Newest; doubt.At != "" {
		facts = append(facts, [2]string{"identity", fmt.Sprintf("in doubt at %s: %s", doubt.At.moment(), doubt.Detail)})
	}
	facts = append(facts, [2]string{"pending", s.pending()})
	if !decide {
		facts = append(facts, [2]string{"dead letters", letters})
	}
	err = printFacts(w, facts)
	if err != nil || len(s.Namespaces) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return printNamespaces(w, s.Namespaces, most)
}

// pending says how much waits for upstream.
func (s *status) pending() string {
	text := string(s.Pending)
	if n := s.Pending.number(); n > 0 {
		text = fmt.Sprintf("%s, %s, the oldest %s", plural(n, "write"), s.PendingBytes.size(), s.OldestPending.age())
	}
	if s.Rebuilding == "true" {
		text += ", so far: botwired is still reading its journal"
	}
	return text
}

// deadLetters says how many there are, and whether any waits for a person to decide.
func (s *status) deadLetters() (text string, decide bool) {
	all, open := s.DeadLetters.number(), s.OpenDeadLetters.number()
	switch {
	case all <= 0:
		return s.DeadLetters.or("unknown"), false
	case s.OpenDeadLetters == "":
		open = all
	case open <= 0:
		return fmt.Sprintf("%d, none to decide on (superseded by a later write, or dropped)", all), false
	}
	text = fmt.Sprintf(`%d to decide on: "botwired dead-letters" says why upstream has refused them`, open)
	if all > open {
		text += fmt.Sprintf(" (and %d superseded by a later write, or dropped)", all-open)
	}
	return text, true
}

// printNamespaces prints no more than most of them: first those that wait for something or are nearly full, then
// those with the most pending writes.
func printNamespaces(w io.Writer, all []namespaceStatus, most int) error {
	shown := all
	if len(all) > most {
		shown = slices.Clone(all)
		slices.SortStableFunc(shown, func(a, b namespaceStatus) int {
			return cmp.Or(cmp.Compare(b.attention(), a.attention()), cmp.Compare(b.Pending.number(), a.Pending.number()))
		})
		shown = shown[:most]
	}
	columns := []string{"NAMESPACE", "PENDING", "SIZE", "OLDEST", "WAITS"}
	quotas := slices.ContainsFunc(shown, func(n namespaceStatus) bool { return n.quota() != "" })
	if quotas {
		columns = append(columns, "QUOTA")
	}
	rows := make([][]string, 0, len(shown))
	for _, n := range shown {
		oldest := n.OldestPending.age()
		if n.Pending == "0" {
			oldest = ""
		}
		row := []string{string(n.Namespace), string(n.Pending), n.PendingBytes.size(), oldest, n.waits()}
		if quotas {
			row = append(row, n.quota())
		}
		rows = append(rows, row)
	}
	if err := printTable(w, columns, rows); err != nil {
		return err
	}
	if more := len(all) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %s: --all shows them\n", plural(more, "more namespace"))
	}
	if err := printFull(w, shown); err != nil {
		return err
	}
	if slices.ContainsFunc(all, namespaceStatus.canBeTried) {
		fmt.Fprintln(w, "\nbotwired tries again by itself; \"botwired flush --now\" tries at once what is throttled, paused or failed")
	}
	return nil
}

// printFull has a line for each namespace that is nearly full, or not as exclusive as it is set.
func printFull(w io.Writer, shown []namespaceStatus) error {
	var lines []string
	for _, n := range shown {
		for _, text := range []string{n.full(), n.foreign()} {
			if text != "" {
				lines = append(lines, text+"\n")
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprint(w, "\n", strings.Join(lines, ""))
	return err
}

// attention is 1 for a namespace that waits for something, is nearly full or has foreign writes,
// and else 0.
func (n namespaceStatus) attention() int {
	if n.waits() != "" || n.full() != "" || n.foreign() != "" || n.Suspect.Since != "" {
		return 1
	}
	return 0
}

// canBeTried reports whether the namespace waits for a time that a person can cut short.
func (n namespaceStatus) canBeTried() bool {
	kind, _, _ := strings.Cut(string(n.Waits.Why), ":")
	return kind == "throttled" || kind == "paused" || kind == "failed"
}
