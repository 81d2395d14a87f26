package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
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
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		r := api.Request{Path: api.Surface("monitor"), Query: url.Values{}}
		if *namespace != "" {
			r.Query.Set("namespace", *namespace)
		}
		m.client, m.out = c, p.Screen()
		if err := c.Events(cmd.Context(), r, m.opened, m.visit); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil // Ctrl-C is how it ends
	}
	return cmd
}

// monitoring prints requests.
type monitoring struct {
	process *Program
	client  *attach.Client
	out     io.Writer
	asJSON  bool
}

// monitored is one request, as the daemon tells of it.
type monitored struct {
	At           term.Cell `json:"at"`
	Method       term.Cell `json:"method"`
	Path         term.Cell `json:"path"`
	Namespace    term.Cell `json:"namespace"`
	Key          term.Cell `json:"key"`
	Status       term.Cell `json:"status"`
	Answered     term.Cell `json:"answered"`
	Age          term.Cell `json:"age_seconds"`
	Microseconds term.Cell `json:"microseconds"`
	Bytes        term.Cell `json:"bytes"`
}

// opened prints the header of a screen.
func (m *monitoring) opened() {
	if s, ok := m.out.(*term.Screen); ok && !m.asJSON {
		fmt.Fprintf(s, "%s\n", s.Bold(fmt.Sprintf("%-12s  %-6s %s  %-9s  %8s  %s", "TIME", "METHOD", "HTTP", "FROM", "TOOK", "ENTRY")))
	}
}

func (m *monitoring) visit(event api.Event) error {
	switch event.Name {
	case "skipped":
		var skipped struct{ Requests term.Cell }
		if err := m.client.Decode(event.Data, &skipped); err != nil {
			return err
		}
		_, err := fmt.Fprintf(m.process.Stderr, "%s left out: they came faster than monitor shows them\n", words.Plural(skipped.Requests.Number(), "request"))
		return err
	case "request":
	default:
		return nil // a newer daemon may tell more
	}
	if m.asJSON {
		return term.JSON(m.out, event.Data)
	}
	var r monitored
	if err := m.client.Decode(event.Data, &r); err != nil {
		return err
	}
	line := r.fields()
	if s, ok := m.out.(*term.Screen); ok {
		line = r.line(s)
	}
	_, err := fmt.Fprintln(m.out, line)
	return err
}

// fields are for programs.
func (r *monitored) fields() string {
	fields := []term.Cell{term.Cell(r.At.Instant()), r.Method, r.Path, r.Status, r.Answered, r.Age, r.Microseconds, r.Bytes}
	var shown []string
	for _, field := range fields {
		shown = append(shown, term.Printable(field.Or("-")))
	}
	return strings.Join(shown, "\t")
}

// line is for a person. Columns of one width come first: names are of any length.
func (r *monitored) line(s *term.Screen) string {
	at := string(r.At)
	if t, ok := r.At.Time(); ok {
		at = t.In(s.Now().Location()).Format("15:04:05.000")
	}
	target := term.Printable(joined(string(r.Namespace), string(r.Key)))
	if r.Namespace == "" {
		target = term.Printable(string(r.Path))
	} else if r.Key == "" {
		target = term.Printable(string(r.Namespace))
	}
	line := fmt.Sprintf("%s  %-6s %s  %s  %s  %s", s.Dim(at), term.Printable(string(r.Method)), statusIn(s.Palette, string(r.Status)),
		sourceIn(s.Palette, fmt.Sprintf("%-9s", term.Printable(r.Answered.Or("-")))), fmt.Sprintf("%8s", r.took()), target)
	if r.Age != "" {
		line += s.Dim("  age " + r.Age.Age())
	}
	if r.Bytes != "" {
		line += s.Dim("  " + r.Bytes.Size())
	}
	return line
}

// took is how long the answer took.
func (r *monitored) took() string {
	us, err := strconv.ParseFloat(string(r.Microseconds), 64)
	if err != nil {
		return "-"
	}
	return microseconds(us)
}

// microseconds is a duration in microseconds, or from 10 ms on in milliseconds.
func microseconds(us float64) string {
	if us >= 10_000 {
		return fmt.Sprintf("%.1fms", us/1000)
	}
	return fmt.Sprintf("%.0fµs", us)
}

// statusIn colours an HTTP status by what it says.
func statusIn(p term.Palette, status string) string {
	if status == "" {
		status = "-"
	}
	status = fmt.Sprintf("%4s", term.Printable(status))
	switch strings.TrimSpace(status)[:1] {
	case "2", "3":
		return p.Green(status)
	case "4":
		return p.Yellow(status)
	}
	return p.Red(status)
}

// sourceIn colours from where an answer came: what asked upstream stands out.
func sourceIn(p term.Palette, answered string) string {
	if strings.HasPrefix(answered, "upstream") || strings.HasPrefix(answered, "stale") {
		return p.Yellow(answered)
	}
	return answered
}
