package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

// restoreStep is how long one request waits for the end of a restoration. After it, the command
// shows how far the daemon is.
const restoreStep = 2 * time.Second

// progressOf says how far a restoration is.
func progressOf(r *api.Restoration) string {
	text := fmt.Sprintf("%d restored, upstream lacks %d", r.Restored, r.Left)
	if r.Waits != nil {
		text += "; " + waitText(io.Discard, r.Waits)
	}
	return text
}

func newRestoreCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "restore NAMESPACE | --all",
		Short:   "Give upstream back what it has lost of a suspect namespace, or of all",
		GroupID: groupMemory,
		Long: "Give upstream back the entries of a suspect namespace that it no longer holds: those of which the daemon\n" +
			"has a copy. A value that upstream holds after all stays. The daemon keeps to the quota, and goes on when\n" +
			"this command is interrupted, and after a restart. --stop ends it; what is pending by then still goes.\n" +
			"Of a namespace that is not suspect, nothing is restored.\n\n" +
			"With --all and no namespace, upstream gets back every suspect namespace. If the daemon has stopped asking a NATS\n" +
			"bucket, as it was made anew or has gone back, the daemon goes on with the bucket that is there, and gives it\n" +
			"every entry of which it has a copy.",
		Example: "  botwired restore my-agent\n" +
			"  botwired restore my-agent --stop\n" +
			"  botwired restore --all",
		Args: arguments(0, 1),
	}
	asJSON := JSONFlag(cmd)
	stop := cmd.Flags().Bool("stop", false, "end the restoration")
	all := cmd.Flags().Bool("all", false, "restore all suspect namespaces, and a bucket that has lost its writes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *all && (len(args) > 0 || *stop):
			return Usagef("--all is for every namespace: leave NAMESPACE and --stop out")
		case !*all && len(args) == 0:
			return Usagef("expected NAMESPACE, or --all for every suspect one")
		case *all:
			return restoreAll(cmd.Context(), p, settings, *asJSON)
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		so, body, err := p.restore(cmd.Context(), c, args[0], *stop)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return term.JSON(p.Stdout, body)
		}
		return p.reportRestore(so)
	}
	return cmd
}

// restore asks until the restoration is over, and shows meanwhile how far it is.
func (p *Program) restore(ctx context.Context, c *attach.Client, namespace string, stop bool) (so *api.Restoration, body []byte, err error) {
	query := url.Values{"namespace": {namespace}, "timeout": {restoreStep.String()}}
	if stop {
		query.Set("stop", "true")
	}
	r := api.Request{Method: http.MethodPost, Path: api.Surface("restore"), Query: query, Within: restoreStep + byHandGrace}
	shows := p.IsTerminal(p.Stderr)
	if shows {
		defer p.ShowLine("")
	}
	for {
		so = &api.Restoration{}
		answer, err := c.Read(ctx, r, so)
		if err == nil {
			return so, answer.Body, nil
		}
		var running *api.Refused
		if !errors.As(err, &running) || running.Status != http.StatusGatewayTimeout {
			return nil, nil, err
		}
		if fault := json.Unmarshal(running.Body, so); fault != nil || so.State == "" {
			return nil, nil, err
		}
		if shows {
			p.ShowLine(term.Printable(progressOf(so)))
		}
	}
}

func (p *Program) reportRestore(so *api.Restoration) error {
	if so.State == "over" && so.Restored+so.Kept+so.Failed+so.Left == 0 {
		_, err := fmt.Fprintf(p.Stdout, "nothing to restore: %s is not suspect (botwired status)\n", term.Printable(so.Namespace))
		return err
	}
	text := fmt.Sprintf("%s restored", words.Plural(so.Restored, "entry"))
	if so.Kept > 0 {
		text += fmt.Sprintf("; upstream had another value of %s, which stays", words.Plural(so.Kept, "entry"))
	}
	if so.Failed > 0 {
		text += fmt.Sprintf("; upstream has refused %s: see botwired dead-letters", words.Plural(so.Failed, "entry"))
	}
	fmt.Fprintln(p.Stdout, term.Printable(text))
	switch left := so.Left; {
	case left <= 0:
		return nil
	case so.State == "stopped":
		fmt.Fprintf(p.Stdout, "stopped: upstream lacks %s\n", words.Plural(left, "entry"))
		return nil
	}
	return fmt.Errorf("upstream still lacks %s, of which there is no copy here, or which it refuses: botwired forget %s gives them up",
		words.Plural(so.Left, "entry"), term.Printable(so.Namespace))
}

func newForgetCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "forget NAMESPACE [KEY] | --all",
		Short:   "Drop the copies of what upstream no longer has in a namespace",
		GroupID: groupMemory,
		Long: "Drop for good the copies of entries that upstream does not list in a namespace, and copies that are newer\n" +
			"than what it lists. Pending writes stay. Without --yes, botwired asks first.\n\n" +
			"With KEY, drop the local copy of one entry: the next read asks upstream. That loses nothing which upstream\n" +
			"holds, and botwired does not ask first. If a write to the entry is pending, nothing is dropped.\n\n" +
			"With --all and no namespace, the daemon goes on with a NATS bucket that was made anew or has gone back, as\n" +
			"it is, and gives nothing back. \"botwired restore --all\" gives it what the daemon has.",
		Example: "  botwired export my-agent > before.jsonl && botwired forget my-agent\n" +
			"  botwired forget my-agent --yes\n" +
			"  botwired forget my-agent user_name\n" +
			"  botwired forget --all",
		Args: arguments(0, 2),
	}
	asJSON := JSONFlag(cmd)
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	whole := cmd.Flags().Bool("all", false, "go on with a bucket that has lost writes, as it is")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *whole && len(args) > 0:
			return Usagef("--all is for the whole bucket: leave NAMESPACE out")
		case !*whole && len(args) == 0:
			return Usagef("expected NAMESPACE, or --all for a bucket that has lost its writes")
		}
		if len(args) == 2 {
			c, err := settings.connect()
			if err != nil {
				return err
			}
			return forgetEntry(cmd.Context(), p, c, args[0], args[1], *asJSON)
		}
		if err := p.mayAsk(*yes, "gives copies up for good"); err != nil {
			return err
		}
		c, err := settings.connect()
		if err != nil {
			return err
		}
		if *whole {
			return acceptUpstream(cmd.Context(), p, c, *yes, *asJSON)
		}
		if !*yes {
			if err := p.confirmForget(cmd.Context(), c, args[0]); err != nil {
				return err
			}
		}
		r := byHand("forget", url.Values{"namespace": {args[0]}})
		return ask(cmd.Context(), p, c, r, *asJSON, func(so *api.Forgotten) error {
			_, err := fmt.Fprintf(p.Stdout, "%s forgotten; upstream lists %s\n", words.Plural(so.Forgotten, "entry"), words.Plural(so.UpstreamHolds, "entry"))
			return err
		})
	}
	return cmd
}

// confirmForget asks, and says how much there is to lose.
func (p *Program) confirmForget(ctx context.Context, c *attach.Client, namespace string) error {
	lost := ""
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	for _, n := range s.Namespaces {
		if n.Namespace == namespace && n.Suspect != nil {
			lost = fmt.Sprintf(" Upstream lacks %d of %d.", n.Suspect.Missing, n.Suspect.Of)
		}
	}
	return p.Confirm(ctx, fmt.Sprintf("Give up for good what upstream lacks of the namespace %s?%s", namespace, lost))
}

// suspects returns what upstream seems to have lost, for the top of the status.
func suspects(w io.Writer, namespaces []api.NamespaceStatus) string {
	var lines []string
	for _, n := range namespaces {
		if n.Suspect == nil {
			continue
		}
		what := `"botwired restore ` + n.Namespace + `" gives them back to upstream, "botwired forget ` + n.Namespace + `" gives them up`
		if n.Suspect.Restoring {
			what = "botwired is giving them back to upstream"
		}
		lines = append(lines, fmt.Sprintf("%s, upstream lacks %d of the %d entries of %s that it has confirmed, and botwired serves its copies: is upstream.url right? %s",
			term.Since(w, n.Suspect.Since), n.Suspect.Missing, n.Suspect.Of, n.Namespace, what))
	}
	if more := len(lines) - shownSuspects; more > 0 {
		lines = append(lines[:shownSuspects], fmt.Sprintf("and %s", words.Plural(more, "more namespace")))
	}
	return strings.Join(lines, "; ")
}

// shownSuspects bounds how many suspect namespaces the status describes.
const shownSuspects = 5
