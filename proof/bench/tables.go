package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/botwired/botwired/internal/words"
)

// labels are the contenders' names in the tables.
var labels = map[contender]string{
	botwired: "botwired", page: "botwired, a page open", redis: "Redis", nginx: "nginx's cache", bare: "Go's net/http",
	echo: "TCP echo", upstream: "the service, far away",
}

// print writes the tables and the goals, in Markdown.
func (r *report) print(w io.Writer) error {
	var b strings.Builder
	b.WriteString("Closed loop: × is botwired's throughput over the other's.\n")
	for group := range groups(r.Cells) {
		fmt.Fprintf(&b, "\n| %s | c | requests/s | × | p50 | p99 | p99.9 | CPU | generator |\n", group[0].Workload)
		b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
		for _, c := range group {
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s |\n", labels[c.Contender], c.Connections,
				thousands(c.Median.PerSecond), r.times(c), c.Median.percentiles(), cost(c.Median.CPU), r.generator(c))
		}
	}
	if len(r.Open) > 0 {
		fmt.Fprintf(&b, "\nOpen loop, %d connections: the rates are %s %% of what the slowest of botwired, Redis, nginx and "+
			"net/http reaches in the closed loop.\n", openConnections, joined(r.Options.Open))
	}
	for group := range groups(r.Open) {
		fmt.Fprintf(&b, "\n| %s | due/s | p50 | p99 | p99.9 | CPU | generator |\n|---|---|---|---|---|---|---|\n", group[0].Workload)
		for _, c := range group {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", labels[c.Contender], thousands(c.Rate),
				c.Median.percentiles(), cost(c.Median.CPU), r.generator(c))
		}
	}
	r.printGenerator(&b)
	if r.Idle != nil {
		fmt.Fprintf(&b, "\nIdle: %s resident, %.3f %% of a core.\n", megabytes(r.Idle.RSS), 100*r.Idle.CPU)
	}
	printGoals(&b, r.Goals)
	fmt.Fprintf(&b, "\n%s.\n", r.describe())
	_, err := io.WriteString(w, b.String())
	return err
}

// groups yields the cells of each workload.
func groups(cells []*cell) func(yield func([]*cell) bool) {
	return func(yield func([]*cell) bool) {
		for rest := cells; len(rest) > 0; {
			n := slices.IndexFunc(rest, func(c *cell) bool { return c.Workload != rest[0].Workload })
			if n < 0 {
				n = len(rest)
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// times shows botwired's throughput over that of another contender.
func (r *report) times(c *cell) string {
	if ratio := r.ratio(c.Workload, c.Connections, c.Contender); ratio != nil {
		return significant(ratio.PerSecond)
	}
	return "–"
}

// percentiles shows three columns.
func (f figures) percentiles() string {
	return duration(f.P50) + " | " + duration(f.P99) + " | " + duration(f.P999)
}

// cost shows the CPU time of a request.
func cost(us float64) string {
	if us == 0 {
		return "–"
	}
	return duration(us)
}

func joined(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = fmt.Sprint(n)
	}
	return strings.Join(texts, ", ")
}

// limitAt is how many times the fastest server's rate the echo's has to be, so that the generator is not the
// limit of that server's.
const limitAt = 1.1

// printGenerator says whether the generator was the limit: it drives the echo, whose answers cost least, faster than
// any server if it was not.
func (r *report) printGenerator(b *strings.Builder) {
	var lines []string
	for _, e := range r.Cells {
		if e.Contender != echo {
			continue
		}
		fastest := r.fastestBeside(e)
		if fastest == nil || fastest.Median.PerSecond == 0 {
			continue
		}
		times := e.Median.PerSecond / fastest.Median.PerSecond
		line := fmt.Sprintf("| %s | %d | %s× that of %s", e.Workload, e.Connections, significant(times), labels[fastest.Contender])
		if times < limitAt {
			line += ": **the generator and TCP are the limit**"
		}
		lines = append(lines, line+" |\n")
	}
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n| is the generator the limit? | c | the rate at which it drives the echo |\n|---|---|---|\n")
	b.WriteString(strings.Join(lines, ""))
}

// fastestBeside returns the server with the highest throughput in an echo's group; nil if there is none.
func (r *report) fastestBeside(e *cell) (fastest *cell) {
	for _, c := range r.Cells {
		if c.Contender == echo || c.Workload != e.Workload || c.Connections != e.Connections {
			continue
		}
		if fastest == nil || c.Median.PerSecond > fastest.Median.PerSecond {
			fastest = c
		}
	}
	return fastest
}

// generator shows the generator's CPU time of a request, and its share of the machine's.
func (r *report) generator(c *cell) string {
	if c.Median.Generator == 0 {
		return "–"
	}
	share := c.Median.Generator * c.Median.PerSecond / 1e6 / float64(r.Machine.Cores)
	return fmt.Sprintf("%s, %.0f %%", duration(c.Median.Generator), 100*share)
}

// describe says what ran where.
func (r *report) describe() string {
	o := r.Options
	redis, nginx := "no Redis", "no nginx"
	if r.Redis != "" {
		redis = "Redis " + r.Redis
	}
	if r.Nginx != "" {
		nginx = "nginx " + r.Nginx
	}
	env := ""
	if len(o.Env) > 0 {
		env = "botwired with " + strings.Join(o.Env, ", ") + "; "
	}
	return fmt.Sprintf("%s of %s, values of %d bytes, the service is %s away; %s, %s; %s%s",
		words.Count(o.Rounds, "round"), o.For, valueSize, o.Latency, redis, nginx, env, r.Machine)
}
