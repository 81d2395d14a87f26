package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/internal/sse"
)

func newMonitorCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "monitor",
		Short:   "Show each request to the memory as it is answered",
		GroupID: groupDaily,
		Example: "  botwired monitor\n" +
			"  botwired monitor --namespace my-agent --values\n" +
			"  botwired monitor | grep upstream      # what is not answered here",
		Long: "Show a line for each request to the memory, until Ctrl-C or until the daemon stops: when, what, the status, from\n" +
			"where it was answered, in how many microseconds, and the age of what was answered. Values are shown only with\n" +
			"--values.\n\n" +
			"Where standard output is no terminal, a line has fields with tabs between them: time, method, path, status,\n" +
			"answered from, age in seconds, microseconds, bytes and, with --values, the value as JSON. A field without a\n" +
			"value is a dash. If requests come faster than monitor can show them, it says on standard error how many it\n" +
			"has left out.",
		Args: noArguments,
	}
	m := &monitoring{process: p}
	cmd.Flags().BoolVar(&m.asJSON, "json", false, "print a line of JSON for each request")
	cmd.Flags().BoolVar(&m.values, "values", false, "show the values that are read and written, too")
	namespace := namespaceFlag(cmd, "only the requests of this namespace")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		r := request{method: http.MethodGet, path: surface("monitor"), query: url.Values{}}
		if m.values {
			r.query.Set("values", "true")
		}
		if *namespace != "" {
			r.query.Set("namespace", *namespace)
		}
		m.client, m.out = c, p.screen()
		if err := c.events(cmd.Context(), r, m.opened, m.visit); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil // Ctrl-C is how it ends
	}
	return cmd
}

// monitoring prints requests.
type monitoring struct {
	process        *process
	client         *client
	out            io.Writer
	asJSON, values bool
}

// monitored is one request, as the daemon tells of it.
type monitored struct {
	At           cell    `json:"at"`
	Method       cell    `json:"method"`
	Path         cell    `json:"path"`
	Namespace    cell    `json:"namespace"`
	Key          cell    `json:"key"`
	Status       cell    `json:"status"`
	Answered     cell    `json:"answered"`
	Age          cell    `json:"age_seconds"`
	Microseconds cell    `json:"microseconds"`
	Bytes        cell    `json:"bytes"`
	Value        *string `json:"value"`
}

// opened prints the header of a screen.
func (m *monitoring) opened() {
	if s, ok := m.out.(*screen); ok && !m.asJSON {
		fmt.Fprintf(s, "%s\n", s.bold(fmt.Sprintf("%-12s  %-6s %s  %-9s  %8s  %s", "TIME", "METHOD", "HTTP", "FROM", "TOOK", "ENTRY")))
	}
}

func (m *monitoring) visit(event sse.Event) error {
	switch event.Name {
	case "skipped":
		var skipped struct{ Requests cell }
		if err := m.client.decode(event.Data, &skipped); err != nil {
			return err
		}
		_, err := fmt.Fprintf(m.process.stderr, "%s left out: they came faster than monitor shows them\n", plural(skipped.Requests.number(), "request"))
		return err
	case "request":
	default:
		return nil // a newer daemon may tell more
	}
	if m.asJSON {
		return printJSON(m.out, event.Data)
	}
	var r monitored
	if err := m.client.decode(event.Data, &r); err != nil {
		return err
	}
	line := r.fields(m.values)
	if s, ok := m.out.(*screen); ok {
		line = r.line(s)
	}
	_, err := fmt.Fprintln(m.out, line)
	return err
}

// fields are for programs.
func (r *monitored) fields(values bool) string {
	fields := []cell{cell(r.At.instant()), r.Method, r.Path, r.Status, r.Answered, r.Age, r.Microseconds, r.Bytes}
	if values {
		fields = append(fields, cell(r.quoted()))
	}
	var shown []string
	for _, field := range fields {
		shown = append(shown, printable(field.or("-")))
	}
	return strings.Join(shown, "\t")
}

// quoted is the value in JSON, on one line; empty if there is none.
func (r *monitored) quoted() string {
	if r.Value == nil {
		return ""
	}
	text, err := json.Marshal(*r.Value)
	if err != nil {
		return "" // which no text causes
	}
	return string(text)
}

// line is for a person. Columns of one width come first: names are of any length.
func (r *monitored) line(s *screen) string {
	at := string(r.At)
	if t, ok := r.At.time(); ok {
		at = t.In(s.now().Location()).Format("15:04:05.000")
	}
	target := printable(joinNames(string(r.Namespace), string(r.Key)))
	if r.Namespace == "" {
		target = printable(string(r.Path))
	} else if r.Key == "" {
		target = printable(string(r.Namespace))
	}
	line := fmt.Sprintf("%s  %-6s %s  %s  %s  %s", s.dim(at), printable(string(r.Method)), s.status(string(r.Status)),
		s.source(fmt.Sprintf("%-9s", printable(r.Answered.or("-")))), fmt.Sprintf("%8s", r.took()), target)
	if r.Age != "" {
		line += s.dim("  age " + r.Age.age())
	}
	if r.Bytes != "" {
		line += s.dim("  " + r.Bytes.size())
	}
	if value := r.quoted(); value != "" {
		line += "  " + printable(value)
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

// status colours an HTTP status by what it says.
func (p palette) status(status string) string {
	if status == "" {
		status = "-"
	}
	status = fmt.Sprintf("%4s", printable(status))
	switch strings.TrimSpace(status)[:1] {
	case "2", "3":
		return p.green(status)
	case "4":
		return p.yellow(status)
	}
	return p.red(status)
}

// source colours from where an answer came: what asked upstream stands out.
func (p palette) source(answered string) string {
	if strings.HasPrefix(answered, "upstream") || strings.HasPrefix(answered, "stale") {
		return p.yellow(answered)
	}
	return answered
}
