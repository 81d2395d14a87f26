package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root := flag.String("root", ".", "the root of the tree")
	only := flag.String("run", "", "try only the rows that match this regular expression, as in \"^8\\.4:\" or \"^8\\..*listing\"")
	parallel := flag.Int("parallel", runtime.NumCPU(), "how many rows are tried at a time")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	list, err := readList(filepath.Join(*root, "proof", "mutants", "mutants.txt"))
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(m mutant) bool { return !wanted.MatchString(m.String()) })
	if len(list) == 0 {
		return fmt.Errorf("no row matches %q: nothing was taken out", *only)
	}
	lab, err := newLab(*root)
	if err != nil {
		return err
	}
	defer lab.close()

	began := time.Now()
	if err := lab.trials(ctx, list, *parallel); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "with nothing taken out, every test passes (%s)\n", since(began))
	results, err := lab.all(ctx, list, *parallel)
	if err != nil {
		return err
	}
	return summary(list, results, began)
}

// summary is the command's last line, or the rows that went wrong as an error.
func summary(list []mutant, results []result, began time.Time) error {
	var wrong []string
	var building, testing time.Duration
	for i, r := range results {
		building += r.building
		testing += r.testing
		if r.failed == "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s", &list[i], r))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d guards could be taken out without a test failing, or could not be taken out:\n%s",
			len(wrong), len(list), strings.Join(wrong, "\n"))
	}
	fmt.Fprintf(os.Stderr, "%d guards taken out, and a test failed for each, in %s (%s of building, %s of testing)\n",
		len(list), since(began), round(building), round(testing))
	return nil
}

func since(t time.Time) time.Duration { return round(time.Since(t)) }

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
