package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/words"
)

func newMonitorCommand(p *Program, settings *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "monitor",
		Short:   "Show each request to the memory as it is answered",
		GroupID: GroupDaily,
		Example: "  botwired monitor\n" +
			"  botwired monitor --namespace my-agent\n" +
			"  botwired monitor | grep upstream      # what is not answered here",
		Long: "Show a line for each request to the memory, until Ctrl-C or until the daemon stops: when, what, the status, from\n" +
			"where it was answered, in how many microseconds, and the age of what was answered. botwired get and the\n" +
			"dashboard show values.\n\n" +
			"Where standard output is no terminal, a line has fields with tabs between them: time, method, path, status,\n" +
			"answered from, age in seconds, microseconds and bytes. A field without a value is a dash. If requests come\n" +
			"faster than monitor can show them, it says on standard error how many it has left out.",
		Args: NoArguments,
	}
	m := &monitoring{process: p}
	cmd.Flags().BoolVar(&m.asJSON, "json", false, "print a line of JSON for each request")
	namespace := namespaceFlag(cmd, "only the requests of this namespace")
	cmd.RunE = settings.asks(func(ctx context.Context, c *attach.Client, _ []string) error {
		r := api.Request{Path: api.Surface("monitor"), Query: url.Values{}}
		if *namespace != "" {
			r.Query.Set("namespace", *namespace)
		}
		m.client, m.out = c, p.Screen()
		if err := c.Events(ctx, r, m.opened, m.visit); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil // ended by Ctrl-C
	})
	return cmd
}

type monitoring struct {
	process *Program
	client  *attach.Client
	out     io.Writer
	asJSON  bool
}

func (m *monitoring) opened() {
	if s, ok := m.out.(*term.Screen); ok && !m.asJSON {
		fmt.Fprintf(s, "%s\n", s.Bold(fmt.Sprintf("%-12s  %-6s %s  %-9s  %8s  %s", "TIME", "METHOD", "HTTP", "FROM", "TOOK", "ENTRY")))
	}
}

func (m *monitoring) visit(event api.Event) error {
	switch event.Name {
	case "skipped":
		var skipped api.Skipped
		if json.Unmarshal(event.Data, &skipped) != nil {
			return m.client.Foreign()
		}
		_, err := fmt.Fprintf(m.process.Stderr, "%s left out: they came faster than monitor shows them\n", words.Plural(int(skipped.Requests), "request"))
		return err
	case "request":
	default:
		return nil // a newer daemon may send more kinds
	}
	if m.asJSON {
		return term.JSON(m.out, event.Data)
	}
	var r api.AnsweredRequest
	if json.Unmarshal(event.Data, &r) != nil {
		return m.client.Foreign()
	}
	line := fields(&r)
	if s, ok := m.out.(*term.Screen); ok {
		line = requestLine(s, &r)
	}
	_, err := fmt.Fprintln(m.out, line)
	return err
}

func fields(r *api.AnsweredRequest) string {
	age := "-"
	if r.AgeSeconds != nil {
		number, _ := json.Marshal(*r.AgeSeconds) // in the daemon's format
		age = string(number)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s\t%d\t%d", term.Instant(term.Unix(r.At)), term.Printable(r.Method), term.Printable(r.Path), r.Status,
		term.Printable(cmp.Or(r.Answered, "-")), age, r.Microseconds, r.Bytes)
}

// requestLine formats a request for people. The columns of fixed width come first, because names have
// any length.
func requestLine(s *term.Screen, r *api.AnsweredRequest) string {
	target := entryID{r.Namespace, r.Key}.String()
	if r.Namespace == "" {
		target = r.Path
	} else if r.Key == "" {
		target = r.Namespace
	}
	line := fmt.Sprintf("%s  %-6s %s  %s  %8s  %s", s.Dim(term.Unix(r.At).In(s.Now().Location()).Format("15:04:05.000")), term.Printable(r.Method),
		statusIn(s.Palette, r.Status), sourceIn(s.Palette, fmt.Sprintf("%-9s", term.Printable(cmp.Or(r.Answered, "-")))), microseconds(r.Microseconds), term.Printable(target))
	if r.AgeSeconds != nil {
		line += s.Dim("  age " + term.Age(*r.AgeSeconds))
	}
	return line + s.Dim("  "+term.Size(int64(r.Bytes)))
}

func microseconds(us int64) string {
	if us >= 10_000 {
		return fmt.Sprintf("%.1fms", float64(us)/1000)
	}
	return fmt.Sprintf("%dµs", us)
}

func statusIn(p term.Palette, status int) string {
	text := fmt.Sprintf("%4d", status)
	switch status / 100 {
	case 2, 3:
		return p.Green(text)
	case 4:
		return p.Yellow(text)
	}
	return p.Red(text)
}

// sourceIn colours the source of an answer. Stale answers and answers from upstream stand out.
func sourceIn(p term.Palette, answered string) string {
	if strings.HasPrefix(answered, "upstream") || strings.HasPrefix(answered, "stale") {
		return p.Yellow(answered)
	}
	return answered
}
