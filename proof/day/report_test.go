package day

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/proof/machine"
	"github.com/botwired/botwired/proof/marked"
)

// report is what a day has shown.
type report struct {
	options
	direct, through lived
	sockets         sockets
	machine         machine.Machine
}

// table compares the two days.
func (r *report) table() string {
	d, t := &r.direct, &r.through
	rows := [][3]string{
		{fmt.Sprintf("%s, %s", words.Count(r.agents, "agent"), words.Count(int(r.day.Hours()), "hour")), "directly", "through botwired"},
		{"requests of the agents", requests(d.reads, d.writes), "the same"},
		{"their waits for the memory, all together", words.Duration(d.waited), words.Duration(r.waited())},
		{"requests upstream", requests(d.up.reads, d.up.writes), requests(t.up.reads, t.up.writes)},
		{fmt.Sprintf("agents that ran out of their %s writes", words.Number(int64(r.quota()))), words.Number(int64(d.up.ranOut)), words.Number(int64(t.up.ranOut))},
		{"writes lost", words.Number(int64(d.failed)), words.Number(int64(t.failed))},
		{"writes pending at the end of the day", "–", r.pending()},
		{"CPU time of botwired", "–", fmt.Sprintf("%s, %.2g %% of a core", words.Duration(r.cpu()), 100*r.cpu().Seconds()/r.day.Seconds())},
		{"botwired wrote to the disk", "–", bytesOf(t.written)},
	}
	var b strings.Builder
	for i, row := range rows {
		if i == 1 {
			b.WriteString("|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	return b.String()
}

func requests(reads, writes int) string {
	return words.Number(int64(reads)) + " reads, " + words.Number(int64(writes)) + " writes"
}

func (r *report) pending() string {
	t := &r.through
	if t.pending == 0 {
		return "0"
	}
	return fmt.Sprintf("%s, for %s at most", words.Number(int64(t.pending)), words.Duration(t.oldest))
}

// asked is how many requests have crossed a socket of the daemon's, in life.
func (r *report) asked() (agents, upstream time.Duration) {
	t := &r.through
	return time.Duration(t.reads + t.writes), time.Duration(t.up.reads + t.up.writes)
}

// waited adds what the sockets would have taken to the agents' waits.
func (r *report) waited() time.Duration {
	agents, _ := r.asked()
	return r.through.waited + agents*r.sockets.wall
}

// cpu is the daemon's, with all of the runtime's, and with what the sockets would have taken.
func (r *report) cpu() time.Duration {
	agents, upstream := r.asked()
	own := r.through.shares[partDaemon] + r.through.shares[""]
	return time.Duration(own*float64(r.through.cpu)) + (agents+upstream)*r.sockets.cpu
}

// account says what the table's figures are made of.
func (r *report) account() string {
	t := &r.through
	agents, upstream := r.asked()
	cpu := r.cpu().Seconds()
	share := func(seconds float64) string { return fmt.Sprintf("%.2g %%", 100*seconds/cpu) }
	part := func(name string) string { return share(t.shares[name] * t.cpu.Seconds()) }
	device := ""
	if t.device > 0 {
		device = fmt.Sprintf(" The disk counted %s meanwhile, of all programs and of the file system.", bytesOf(t.device))
	}
	late := ""
	if t.pending > 0 {
		late = fmt.Sprintf(" The pending writes took %s upstream on the next day, and none was lost.", words.Number(int64(t.late)))
	}
	return fmt.Sprintf("Of the agents' waits through botwired, %s are for upstream. Of the CPU time, %s is the daemon's own, %s the Go runtime's for the whole process, "+
		"and %s the price of sockets for %s requests, at %.1f µs each.%s%s No agent's namespace took more than %s writes upstream. "+
		"The simulation took %s; seed %d, %s.\n",
		words.Duration(t.far), part(partDaemon), part(""), share(((agents + upstream) * r.sockets.cpu).Seconds()),
		words.Number(int64(agents+upstream)), float64(r.sockets.cpu)/float64(time.Microsecond), device, late, words.Number(int64(t.up.most)),
		words.Duration(t.real), r.seed, r.machine)
}

// dayPart names the places of the table and of the account on their pages.
const dayPart = "day"

// write writes the pages.
func (r *report) write() error {
	if r.through.cpu == 0 {
		return fmt.Errorf("%s gives no figures of a process: the pages need those of Linux", runtime.GOOS)
	}
	return errors.Join(
		marked.Write("../../README.md", dayPart, r.table()),
		marked.Write("../../docs/performance.md", dayPart, r.account()))
}

// bytesOf writes a number of bytes.
func bytesOf(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.3g MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.3g GB", float64(n)/1e9)
}
