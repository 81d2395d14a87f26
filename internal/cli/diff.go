package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
)

func newDiffCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "diff NAMESPACE KEY [FROM [TO]]",
		Short:   "Compare two states of an entry, line by line",
		GroupID: groupMemory,
		Example: "  botwired diff my-agent notes\n" +
			"  botwired diff my-agent notes 17      # what has changed since revision 17\n" +
			"  botwired diff my-agent notes 17 21",
		Long: "Compare two states of an entry, line by line. FROM and TO are revisions, as botwired history shows them. Without TO,\n" +
			"it is the present state, and without FROM the state before it. Values in JSON are compared with one field a line.",
		Args: arguments(2, 4),
	}
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, args []string) error {
		id := entryID{Namespace: args[0], Key: args[1]}
		var states api.Revisions
		if _, err := c.Read(ctx, historyRequest(id), &states); err != nil {
			return err
		}
		from, to, err := compared(&states, args[2:])
		if err != nil {
			return err
		}
		return printDiff(p.Screen(), p.PaletteOf(p.Stdout), from, to)
	})
	return cmd
}

// compared returns the two states to compare. names are up to two revisions.
func compared(states *api.Revisions, names []string) (from, to *api.Revision, err error) {
	to = &states.Revisions[0]
	if len(names) == 0 {
		if from = stateBefore(states, ""); from == nil {
			return nil, nil, fmt.Errorf("%s/%s has no earlier state that is kept", states.Namespace, states.Key)
		}
		return from, to, nil
	}
	if from, err = named(states, names[0]); err == nil && len(names) > 1 {
		to, err = named(states, names[1])
	}
	return from, to, err
}

func named(states *api.Revisions, name string) (*api.Revision, error) {
	at := slices.IndexFunc(states.Revisions, func(r api.Revision) bool { return isNamed(&r, name) })
	if at < 0 && states.Why != "" {
		return nil, fmt.Errorf("revision %s of %s/%s is not here: %s", term.Printable(strconv.Quote(name)), states.Namespace, states.Key, term.Printable(states.Why))
	}
	if at < 0 {
		return nil, fmt.Errorf("revision %s of %s/%s is not kept, or never was: botwired history shows the others",
			term.Printable(strconv.Quote(name)), states.Namespace, states.Key)
	}
	return &states.Revisions[at], nil
}

// printDiff prints the lines that differ, with three lines around them.
func printDiff(w io.Writer, colours term.Palette, from, to *api.Revision) error {
	old, now := from.Text(), to.Text()
	if a, ok := indented(old); ok {
		if b, ok := indented(now); ok {
			old, now = a, b
		}
	}
	title := func(r *api.Revision) string { return "revision " + revisionName(r) + ": " + stateText(w, r) }
	text := udiff.Unified(title(from), title(to), old, now)
	if text == "" {
		_, err := fmt.Fprintln(w, "the two states have the same value")
		return err
	}
	for line := range strings.Lines(text) {
		line = term.Printable(strings.TrimSuffix(line, "\n"))
		switch line[:1] {
		case "+":
			line = colours.Green(line)
		case "-":
			line = colours.Red(line)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func indented(text string) (string, bool) {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return "", false
	}
	return b.String() + "\n", true
}
