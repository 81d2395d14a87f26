package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/botwired/botwired/proof/marked"
)

// The columns of the table. A count is for each request.
const (
	objects     = iota // allocated
	space              // allocated, in bytes
	reads              // system calls that read something
	readsInVain        // those that found nothing to read yet
	writes
	fsyncs // fdatasync and the like
	waits  // for sockets
	futexes
	others // system calls, but for those in byTheClock
	columns
)

// column says how the bounds of a column follow from the most that was measured: times, plus, and then up to
// whole steps.
type column struct {
	title             string
	times, plus, step float64
}

// described has the columns in their order. A close bound is one that only the code can miss.
var described = [columns]column{
	objects:     {"objects allocated", 1.1, 0.1, 0.1},
	space:       {"bytes allocated", 1.1, 32, 10},
	reads:       {"`read`", 1, 0.1, 0.01},
	readsInVain: {"`read` in vain", 1.5, 0.2, 0.1},
	writes:      {"`write`", 1, 0.1, 0.01},
	fsyncs:      {"`fsync`", 1, 0.05, 0.01},
	waits:       {"`epoll_pwait`", 1.5, 0.2, 0.1},
	futexes:     {"`futex`", 1.5, 0.5, 0.1},
	others:      {"other calls", 1.5, 0.1, 0.01},
}

// counts are what a request costs, or may cost.
type counts [columns]float64

// uncounted stands for a count that nobody has taken. It is within all bounds.
const uncounted = -1

// kind is a kind of request at a number of connections: a row of the table.
type kind struct {
	request     string
	connections int
}

func (k kind) String() string { return fmt.Sprintf("%s, connections %d", k.request, k.connections) }

// bounds are the most that requests may cost.
type bounds map[kind]counts

// tableMemory is the memory of a table that Pebble fills, in bytes for each request that is counted: whether Pebble
// has one to use again depends on who runs first.
const tableMemory = 8 << 20 / countedHeap

// sharedSyncs is the bound of fsyncs for each write where writes share them: two share one at least. How many do
// depends on the disk: writes that come during a slow sync share the next one.
const sharedSyncs = 0.5

// boundOf is the bound for what was measured.
func boundOf(measured counts) (bound counts) {
	if measured[fsyncs] > 0.02 { // a write
		measured[space] += tableMemory
	}
	for i, c := range described {
		bound[i] = math.Ceil((measured[i]*c.times+c.plus)/c.step-1e-9) * c.step
	}
	if bound[fsyncs] < sharedSyncs && measured[fsyncs] > 0.02 {
		bound[writes] += sharedSyncs - bound[fsyncs] // each sync has a write to the log
		bound[fsyncs] = sharedSyncs
	}
	return bound
}

// least has the least of each count of two measurements.
func least(a, b counts) counts {
	for i := range a {
		a[i] = min(a[i], b[i])
	}
	return a
}

// worst has the most of each count over some runs, but for the worst run in ten.
func worst(runs []counts) (most counts) {
	for i := range most {
		values := make([]float64, 0, len(runs))
		for _, c := range runs {
			values = append(values, c[i])
		}
		slices.Sort(values)
		most[i] = values[len(values)-1-len(values)/10]
	}
	return most
}

// exceeded says in which columns a request costs more than it may.
func (b bounds) exceeded(k kind, measured counts) (all []string) {
	bound, ok := b[k]
	if !ok {
		return []string{fmt.Sprintf("%s: the table has no bounds", k)}
	}
	for i, c := range described {
		if !(measured[i] <= bound[i]) { // what is not a number is not within bounds
			all = append(all, fmt.Sprintf("%s: %s: %.2f for each request, and %s are the most",
				k, strings.Trim(c.title, "`"), measured[i], show(i, bound[i])))
		}
	}
	return all
}

// show is a count in the precision of its column.
func show(i int, count float64) string {
	if count == uncounted {
		return "–"
	}
	digits := max(0, int(math.Round(-math.Log10(described[i].step))))
	return strconv.FormatFloat(count, 'f', digits, 64)
}

// tablePart names the table's place in the page.
const tablePart = "cost"

// readBounds reads the table of a page.
func readBounds(page string) (bounds, error) {
	table, err := marked.Read(page, tablePart)
	if err != nil {
		return nil, err
	}
	b, err := parseBounds(table)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	return b, nil
}

func parseBounds(table string) (bounds, error) {
	b := make(bounds)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for _, line := range lines[min(2, len(lines)):] {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		if len(cells) != 2+columns {
			return nil, fmt.Errorf("%d cells, and not %d: %q", len(cells), 2+columns, line)
		}
		connections, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		var c counts
		for i := range c {
			if c[i], err = strconv.ParseFloat(strings.TrimSpace(cells[2+i]), 64); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
		}
		b[kind{strings.TrimSpace(cells[0]), connections}] = c
	}
	return b, nil
}

// table writes counts as the table of the page, in the order of the kinds.
func table(order []kind, of map[kind]counts) string {
	var b strings.Builder
	b.WriteString("| each request, at most | connections |")
	for _, c := range described {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", 1+columns) + "\n")
	for _, k := range order {
		fmt.Fprintf(&b, "| %s | %d |", k.request, k.connections)
		for i, c := range of[k] {
			b.WriteString(" " + show(i, c) + " |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// writeBounds replaces the table of a page.
func writeBounds(page string, order []kind, b bounds) error {
	return marked.Write(page, tablePart, table(order, b))
}
