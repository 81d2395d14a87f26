package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

func newExportEntriesCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "export NAMESPACE... | --all",
		Short:   "Print all entries of namespaces, one line of JSON each",
		GroupID: groupMemory,
		Long: "Print all entries of the given namespaces, or of all in which the daemon knows entries, as a reader would see\n" +
			"them, in the order of their keys: JSON Lines, for botwired import. What is pending is among them, with\n" +
			"\"state\":\"pending\". botwired asks upstream for the values that it does not have.\n\n" +
			"After the entries of each namespace comes a line {\"end\":…}. It says how many there were, and whether that is all:\n" +
			"a file without that line is cut off. If an export may lack something, as upstream lists no more than 1,000 keys or\n" +
			"cannot be asked, botwired says so on stderr and exits with 3.",
		Example: "  botwired export my-agent > my-agent.jsonl\n" +
			"  botwired export --all | gzip > backup.jsonl.gz\n" +
			"  botwired export my-agent | botwired import --listen 127.0.0.1:2700\n" +
			"  botwired export my-agent | botwired import --namespace copy-of-agent",
	}
	all := cmd.Flags().Bool("all", false, "all namespaces in which the daemon knows entries, instead of the given ones")
	cmd.Args = func(cmd *cobra.Command, namespaces []string) error {
		if *all {
			return NoArguments(cmd, namespaces)
		}
		return arguments(1, math.MaxInt)(cmd, namespaces)
	}
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, namespaces []string) error {
		x := &exporting{Program: p, client: c}
		defer x.ShowLine("")
		if *all {
			known, err := c.Namespaces(ctx)
			if err != nil {
				return err
			}
			for i := range known {
				namespaces = append(namespaces, known[i].Namespace)
			}
		}
		for _, namespace := range namespaces {
			if err := x.export(ctx, namespace); err != nil {
				return err
			}
		}
		if len(x.lacking) > 0 {
			return &term.Exit{Code: ExitMissing, Err: fmt.Errorf("the export may not be all: %s", strings.Join(x.lacking, "; "))}
		}
		return nil
	})
	return cmd
}

type exporting struct {
	*Program
	client  *attach.Client
	entries int      // in all namespaces so far
	lacking []string // what may be missing, per namespace
}

func (x *exporting) export(ctx context.Context, namespace string) error {
	var end *api.ExportCounts
	entries, out := 0, bufio.NewWriter(x.Stdout)
	r := api.Request{Path: api.Surface("export"), Query: url.Values{"namespace": {namespace}}}
	err := x.client.Lines(ctx, r, func(raw []byte) error {
		var line struct{ End *api.ExportCounts }
		if err := json.Unmarshal(raw, &line); err != nil {
			return fmt.Errorf("a line of the export is not botwired's: %w", err)
		}
		if end = line.End; end == nil {
			entries++
			x.entries++
			x.progress()
		}
		if x.IsTerminal(x.Stdout) {
			raw = term.HarmlessJSON(raw)
		}
		_, _ = out.Write(raw) // what comes after fails in the same way
		return out.WriteByte('\n')
	})
	err = cmp.Or(err, out.Flush())
	switch {
	case err != nil && entries == 0:
		return err
	case err != nil:
		return fmt.Errorf("namespace %s is cut off after %s: %w", namespace, words.Plural(entries, "entry"), err)
	case end == nil || end.Entries != entries: // guard 9.32
		return fmt.Errorf("namespace %s is cut off after %s: the daemon has ended", namespace, words.Plural(entries, "entry"))
	case !end.Complete:
		text := namespace + ": " + end.Why
		if end.Missing > 0 {
			text = fmt.Sprintf("%s: %s missing: %s", namespace, words.Plural(end.Missing, "value"), end.Why)
		}
		x.lacking = append(x.lacking, text)
	}
	return nil
}

const shownEvery = 100

// progress shows the number of entries on the terminal, unless the entries are printed there.
func (x *exporting) progress() {
	if x.entries%shownEvery == 0 && !x.IsTerminal(x.Stdout) {
		x.ShowLine(words.Plural(x.entries, "entry") + " exported")
	}
}
