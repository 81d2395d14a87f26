package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/drill"
	"github.com/botwired/botwired/internal/words"
)

// reportDrill prints the audit. It returns an error if the audit found something wrong.
func reportDrill(p *Program, a *drill.Audit, plan *drillPlan, asJSON bool) error {
	var err error
	if asJSON {
		err = term.EncodeJSON(p.Stdout, a)
	} else {
		err = printAudit(p.Stdout, a, p.PaletteOf(p.Stdout))
	}
	if err != nil || a.OK {
		return err
	}
	return fmt.Errorf("%s Once more: botwired drill --seed %d --for %s", a.Verdict, plan.seed, plan.lasts)
}

func printAudit(w io.Writer, a *drill.Audit, colours term.Palette) error {
	fmt.Fprintf(w, "Drill of a throwaway daemon: %s, seed %d\n\n", seconds(a.Seconds), a.Seed)
	if err := printPhases(w, a); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := printBooks(w, a); err != nil {
		return err
	}
	for i := range a.Findings {
		fmt.Fprintln(w)
		printFinding(w, i+1, &a.Findings[i])
	}
	if a.More > 0 {
		fmt.Fprintf(w, "\nand %s more like these\n", words.Plural(a.More, "thing"))
	}
	verdict := colours.Green(a.Verdict)
	if !a.OK {
		verdict = colours.Red(a.Verdict)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", verdict)
	return err
}

// printPhases prints what happened to upstream, and a table with what callers saw in each phase.
func printPhases(w io.Writer, a *drill.Audit) error {
	var happened [][2]string
	var rows [][]string
	for i := range a.Phases {
		p := &a.Phases[i]
		text := "upstream " + p.Upstream
		if p.Down != nil {
			text += fmt.Sprintf("; it answered again after %s, and had cut off %s", seconds(*p.Down), words.Plural(p.Unanswered, "request"))
		}
		happened = append(happened, [2]string{fmt.Sprintf("%d %s", i+1, p.Name), text})
		back, oldest := "", ""
		if p.Recovery != nil {
			back = seconds(*p.Recovery)
		}
		if p.Pending > 0 {
			oldest = seconds(p.OldestPending)
		}
		rows = append(rows, []string{
			fmt.Sprintf("%d %s", i+1, p.Name), strconv.Itoa(p.Acknowledged), latency(p.Writes), strconv.Itoa(p.Reads), latency(p.ReadLatency),
			strconv.Itoa(p.Refused), strconv.Itoa(p.Pending), oldest, back,
		})
	}
	if err := term.Facts(w, happened); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return term.Table(w, []string{
		"PHASE", "WRITES", "P50 / P99", "READS", "P50 / P99", "REFUSED", "WAITED", "OLDEST", "BACK AFTER",
	}, rows)
}

func printBooks(w io.Writer, a *drill.Audit) error {
	b := &a.Books
	compared := fmt.Sprintf("%s upstream: each is as it was acknowledged last", words.Plural(a.Compared, "entry"))
	if a.Different > 0 {
		compared = fmt.Sprintf("%s upstream: %d are not as they were acknowledged last", words.Plural(a.Compared, "entry"), a.Different)
	}
	rows := [][2]string{
		{"acknowledged", words.Plural(b.Acknowledged, "write")},
		{"= settled", fmt.Sprintf("%d, confirmed by upstream", b.Settled)},
		{"+ superseded", fmt.Sprintf("%d, by a later write to the same key", b.Superseded)},
		{"+ pending", fmt.Sprint(b.Pending)},
		{"+ dead", fmt.Sprint(b.Dead)},
	}
	if b.Unaccounted > 0 {
		rows = append(rows, [2]string{"MISSING", fmt.Sprintf("%d, without a receipt of their own", b.Unaccounted)})
	}
	if b.Unanswered > 0 {
		rows = append(rows, [2]string{"unanswered", fmt.Sprintf("%s when the daemon was killed: each may have been made or not", words.Plural(b.Unanswered, "write"))})
	}
	rows = append(rows, [2]string{"settled after", seconds(a.Settling) + ", from upstream's last return on"}, [2]string{"compared", compared})
	return term.Facts(w, rows)
}

// printFinding prints the entry, the broken promise, and the receipts of the entry's writes.
func printFinding(w io.Writer, n int, f *drill.Finding) {
	at := f.Namespace
	if f.Key != "" {
		at += "/" + f.Key
	}
	fmt.Fprintln(w, term.Printable(fmt.Sprintf("%d. %s, phase %s: %s", n, at, f.Phase, f.Text)))
	fmt.Fprintf(w, "   breaks point %d of the contract\n", f.Contract)
	for i := range f.Receipts {
		fmt.Fprintln(w, term.Printable("   receipt "+receiptText(&f.Receipts[i])))
	}
}

func receiptText(r *api.Receipt) string {
	s := fmt.Sprintf("%d %s %s", r.Seq, r.Op, r.State)
	if r.By != nil {
		s += fmt.Sprintf(" by %d", *r.By)
	}
	if r.Reason != "" {
		s += ": " + r.Reason
	}
	return s
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 1, 64) + " s" }

func latency(l drill.Latency) string {
	return strconv.FormatFloat(l.P50, 'f', 1, 64) + " / " + strconv.FormatFloat(l.P99, 'f', 1, 64) + " ms"
}
