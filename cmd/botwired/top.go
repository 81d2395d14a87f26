package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newTopCommand(p *process, settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "top",
		Short:   "Watch rates, latencies, namespaces and outages live",
		GroupID: groupDaily,
		Example: "  botwired top\n" +
			"  botwired top --json | jq .history.outages",
		Long: "Watch the daemon live on a terminal: requests a second, latencies here and upstream, the last hour as a curve,\n" +
			"what each namespace has waiting, and the outages of the last hour. q or Ctrl-C ends it.\n\n" +
			"Where standard output is no terminal, top prints one frame and ends.",
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := settings.connect()
		if err != nil {
			return err
		}
		t := &topView{client: c}
		switch {
		case *asJSON:
			if err := t.ask(cmd.Context()); err != nil {
				return err
			}
			return encodeJSON(p.stdout, map[string]json.RawMessage{"status": t.statusJSON, "history": t.historyJSON})
		case !p.isTerminal(p.stdout):
			t.curve, _ = p.size(p.stdout)
			return t.draw(cmd.Context(), &screen{p.stdout, false, topColumns, topRows, p.now})
		}
		view := &liveView{p, t.draw}
		if err := view.run(cmd.Context()); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	return cmd
}

// topRows and topColumns are the size of a frame where there is no terminal: nothing is cut there.
const topRows, topColumns = 60, 4096

// topNamespaces bounds the namespaces that top asks for.
const topNamespaces = 100

// topView is what top has asked the daemon, and shows.
type topView struct {
	client                  *client
	statusJSON, historyJSON json.RawMessage
	status                  status
	history                 history
	before                  *counts // of the frame before
	curve                   int     // how many columns the curves may end at; 0 for the screen's last
}

// history is the last hour, as the daemon has measured it. A figure is nil where it has none.
type history struct {
	Step   float64        `json:"step_seconds"`
	Points []historyPoint `json:"points"`
	Outage []outage       `json:"outages"`
}

type historyPoint struct {
	Reads       *float64 `json:"reads"`
	Hits        *float64 `json:"hits"`
	Writes      *float64 `json:"writes"`
	Sent        *float64 `json:"sent"`
	LocalP50    *float64 `json:"local_p50_us"`
	LocalP99    *float64 `json:"local_p99_us"`
	UpstreamP50 *float64 `json:"upstream_p50_us"`
	UpstreamP99 *float64 `json:"upstream_p99_us"`
	Pending     *float64 `json:"pending"`
}

type outage struct {
	From   cell `json:"from"`
	To     cell `json:"to"`
	State  cell `json:"state"`
	Reason cell `json:"reason"`
}

// counts are totals at a time, by which two frames give a rate.
type counts struct {
	at                  time.Time
	reads, writes, sent int
	used                map[string]int // of a namespace's quota
}

// ask fetches the state anew. A daemon that knows no history is shown without.
func (t *topView) ask(ctx context.Context) (err error) {
	if t.statusJSON, err = t.client.do(ctx, request{method: http.MethodGet, path: surface("status"), query: url.Values{"namespaces": {strconv.Itoa(topNamespaces)}}}); err != nil {
		return err
	}
	if t.status, err = readStatus(t.client, t.statusJSON); err != nil {
		return err
	}
	t.history, t.historyJSON = history{}, json.RawMessage("null")
	body, err := t.client.do(ctx, request{method: http.MethodGet, path: surface("history")})
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	t.historyJSON = body
	return t.client.decode(body, &t.history)
}

func (t *topView) draw(ctx context.Context, s *screen) error {
	if err := t.ask(ctx); err != nil {
		return err
	}
	now := t.counts(s.now())
	defer func() { t.before = now }()
	status := &t.status
	fmt.Fprintln(s, cut(printable(fmt.Sprintf("botwired %s · %s", status.running(s), status.upstream(s)+status.unwatched())), s.columns))
	if said := status.Summary; said.Text != "" {
		fmt.Fprintln(s, s.bold(s.level(string(said.Level), cut(printable(string(said.Text)), s.columns))))
	}
	fmt.Fprintln(s)
	t.drawRates(s, now)
	fmt.Fprintf(s, "\n%s\n\n", cut(printable(t.totals()), s.columns))
	outages := t.outages(s)
	if err := t.drawNamespaces(s, now, max(s.rows-16-len(outages), 3)); err != nil || len(outages) == 0 {
		return err
	}
	fmt.Fprintf(s, "\n%s\n", s.bold("OUTAGES OF THE LAST HOUR"))
	for _, line := range outages {
		fmt.Fprintln(s, cut(line, s.columns))
	}
	return nil
}

func (t *topView) counts(at time.Time) *counts {
	c := &counts{
		at: at, reads: t.status.Reads.Total.number(), writes: t.status.Writes.Acknowledged.number(),
		sent: t.status.Writes.Sent.number(), used: make(map[string]int),
	}
	for _, n := range t.status.Namespaces {
		c.used[string(n.Namespace)] = n.Quota.Used.number()
	}
	return c
}

func (t *topView) totals() string {
	text := "pending " + t.status.pending() + " · dead letters " + t.status.DeadLetters.or("0")
	if saved := t.status.saved(); saved != "" {
		text += " · " + saved
	}
	return text
}

// drawRates draws what happens each second, and how long it takes, with the last hour as a curve.
func (t *topView) drawRates(s *screen, now *counts) {
	before := t.before
	if before == nil || now.at.Sub(before.at) <= 0 || now.reads < before.reads || now.writes < before.writes {
		before = nil // the first frame, or the daemon has started anew
	}
	per := func(was, is int, of func(historyPoint) *float64) string {
		if before != nil {
			return rate(float64(is-was) / now.at.Sub(before.at).Seconds())
		}
		if n := len(t.history.Points); n > 0 && t.history.Step > 0 && of(t.history.Points[n-1]) != nil {
			return rate(*of(t.history.Points[n-1]) / t.history.Step)
		}
		return "-"
	}
	was := counts{}
	if before != nil {
		was = *before
	}
	fmt.Fprintln(s, s.bold(fmt.Sprintf("%-18s %10s %10s  %s", "A SECOND", "NOW", "", "LAST HOUR")))
	for _, row := range []struct {
		name    string
		was, is int
		of      func(historyPoint) *float64
	}{
		{"reads", was.reads, now.reads, func(p historyPoint) *float64 { return p.Reads }},
		{"writes", was.writes, now.writes, func(p historyPoint) *float64 { return p.Writes }},
		{"sent upstream", was.sent, now.sent, func(p historyPoint) *float64 { return p.Sent }},
	} {
		t.drawRow(s, row.name, per(row.was, row.is, row.of), "", row.of)
	}
	fmt.Fprintln(s, s.bold(fmt.Sprintf("%-18s %10s %10s", "LATENCY", "P50", "P99")))
	localP50 := func(p historyPoint) *float64 { return p.LocalP50 }
	upstreamP50 := func(p historyPoint) *float64 { return p.UpstreamP50 }
	t.drawRow(s, "answered here", t.latency(localP50), t.latency(func(p historyPoint) *float64 { return p.LocalP99 }), localP50)
	t.drawRow(s, "upstream", t.latency(upstreamP50), t.latency(func(p historyPoint) *float64 { return p.UpstreamP99 }), upstreamP50)
}

// latencyPoints are the points of the last minute, of which the newest measured one is shown.
const latencyPoints = 6

// latency is a dash if nothing was measured within the last minute.
func (t *topView) latency(of func(historyPoint) *float64) string {
	points := t.history.Points
	for _, point := range slices.Backward(points[max(len(points)-latencyPoints, 0):]) {
		if us := of(point); us != nil {
			return microseconds(*us)
		}
	}
	return "-"
}

func (t *topView) drawRow(s *screen, name, first, second string, of func(historyPoint) *float64) {
	curve := sparkline(t.history.Points, of, max(cmp.Or(t.curve, s.columns)-42, 10))
	fmt.Fprintf(s, "%-18s %10s %10s  %s\n", name, first, second, s.dim(curve))
}

// rate is a number a second, to about three digits.
func rate(n float64) string {
	if n > 0 && n < 10 {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// sparkline draws the points as a curve, each column the greatest of its time.
func sparkline(points []historyPoint, of func(historyPoint) *float64, width int) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	if len(points) == 0 {
		return ""
	}
	width = min(width, len(points))
	columns, most, fewest := make([]float64, width), 0.0, math.Inf(1)
	for i, point := range points {
		value := -1.0 // not measured
		if v := of(point); v != nil {
			value = *v
		}
		at := i * width / len(points)
		if i == 0 || (i-1)*width/len(points) != at {
			columns[at] = value
		}
		columns[at] = max(columns[at], value)
		most = max(most, value)
	}
	for _, value := range columns {
		if value >= 0 {
			fewest = min(fewest, value)
		}
	}
	line := make([]rune, width)
	for i, value := range columns {
		switch {
		case value < 0:
			line[i] = ' '
		case most == 0:
			line[i] = bars[0]
		case most-fewest < most/10: // a level, not a curve
			line[i] = bars[len(bars)/2]
		default:
			line[i] = bars[int(value/most*float64(len(bars)-1)+0.5)]
		}
	}
	return string(line)
}

// drawNamespaces has the namespaces that need attention most, as many as there is room for.
func (t *topView) drawNamespaces(s *screen, now *counts, most int) error {
	shown := slices.Clone(t.status.Namespaces)
	slices.SortStableFunc(shown, func(a, b namespaceStatus) int {
		return cmp.Or(cmp.Compare(b.attention(), a.attention()), cmp.Compare(b.Pending.number(), a.Pending.number()),
			cmp.Compare(b.Quota.Used.number(), a.Quota.Used.number()))
	})
	more := max(len(shown), t.status.AllNamespaces.number()) - most
	shown = shown[:min(len(shown), most)]
	var rows [][]string
	for _, n := range shown {
		rows = append(rows, []string{string(n.Namespace), string(n.Pending), n.oldest(), t.sentAMinute(string(n.Namespace), now), n.quota(s), n.waitsShortly(s)})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(s, s.dim("no namespace waits for anything"))
		return err
	}
	if err := s.printFitted([]string{"NAMESPACE", "PENDING", "OLDEST", "SENT/MIN", "QUOTA", "WAITS"}, rows); err != nil || more <= 0 {
		return err
	}
	_, err := fmt.Fprintln(s, s.dim("and "+plural(more, "more namespace")))
	return err
}

// sentAMinute goes by the quota's count, and is empty where there is none.
func (t *topView) sentAMinute(namespace string, now *counts) string {
	if t.before == nil {
		return ""
	}
	was, known := t.before.used[namespace]
	passed := now.at.Sub(t.before.at).Minutes()
	if sent := now.used[namespace] - was; known && sent > 0 && passed > 0 {
		return rate(float64(sent) / passed)
	}
	return ""
}

// outages are the outages of the last hour, the newest first.
func (t *topView) outages(s *screen) (lines []string) {
	for _, each := range slices.Backward(t.history.Outage) {
		if len(lines) == shownOutages {
			return append(lines, "and "+plural(len(t.history.Outage)-shownOutages, "more outage"))
		}
		from, ok := each.From.time()
		if !ok {
			continue
		}
		till, lasted := "now", s.now().Sub(from)
		if to, over := each.To.time(); over {
			till, lasted = to.In(s.now().Location()).Format("15:04:05"), to.Sub(from)
		}
		line := fmt.Sprintf("%s to %s (%s) %s", from.In(s.now().Location()).Format("15:04:05"), till, spoken(lasted), each.State)
		if each.Reason != "" {
			line += ": " + string(each.Reason)
		}
		lines = append(lines, printable(line))
	}
	return lines
}

// shownOutages bounds the outages that top lists.
const shownOutages = 5
