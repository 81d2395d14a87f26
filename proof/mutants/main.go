package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
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
	only := flag.String("run", "", "only the rows that match this regular expression, as in \"8: .*listing\"")
	table := flag.Bool("table", false, "print the table of docs/contract.md")
	parallel := flag.Int("parallel", max(1, runtime.NumCPU()/2), "how many rows are tried at a time")
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
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	b := bench{root: *root, scratch: scratch, parallel: *parallel}
	if err := b.trials(ctx, list); err != nil {
		return err
	}
	verdicts, err := b.all(ctx, list, false)
	if err != nil {
		return err
	}
	if *table {
		printTable(list, verdicts)
	}
	return summary(list, verdicts)
}

// bench is where mutants are tried.
type bench struct {
	root, scratch string
	parallel      int
}

// trials sees every test of the list pass without a change, those of a package at once.
func (b bench) trials(ctx context.Context, list []mutant) error {
	var tests []mutant
	for _, m := range list {
		rest, pattern := m.pattern()
		i := slices.IndexFunc(tests, func(o mutant) bool {
			others, _ := o.pattern()
			return slices.Equal(rest, others)
		})
		if i < 0 {
			tests = append(tests, mutant{test: append(rest, "-run", pattern)})
			continue
		}
		tests[i].test[len(tests[i].test)-1] += "|" + pattern
	}
	verdicts, err := b.all(ctx, tests, true)
	for i, v := range verdicts {
		if v != (verdict{}) {
			err = errors.Join(err, fmt.Errorf("with nothing taken out, go test %s: %s", strings.Join(tests[i].test, " "), v))
		}
	}
	return err
}

// pattern is which tests are run, and the other arguments.
func (m *mutant) pattern() (rest []string, pattern string) {
	i := slices.Index(m.test, "-run")
	return slices.Concat(m.test[:i], m.test[i+2:]), m.test[i+1]
}

// all judges every row, each worker in a directory of its own: as its name stays the
// same, what was compiled there is found again.
func (b bench) all(ctx context.Context, list []mutant, trial bool) ([]verdict, error) {
	verdicts := make([]verdict, len(list))
	next := make(chan int)
	g, ctx := errgroup.WithContext(ctx)
	for worker := range b.parallel {
		scratch := filepath.Join(b.scratch, fmt.Sprint(worker))
		g.Go(func() (err error) {
			for i := range next {
				if verdicts[i], err = judge(ctx, b.root, scratch, &list[i], trial); err != nil {
					return err
				}
				if !trial {
					fmt.Fprintf(os.Stderr, "%s: %s\n", &list[i], verdicts[i])
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(next)
		for i := range list {
			select {
			case next <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return verdicts, g.Wait()
}

func summary(list []mutant, verdicts []verdict) error {
	var wrong []string
	for i, v := range verdicts {
		if v.failed == "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s", &list[i], v))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d guards were taken out and not missed, or could not be:\n%s",
			len(wrong), len(list), strings.Join(wrong, "\n"))
	}
	fmt.Fprintf(os.Stderr, "%d guards, and each was missed by a test\n", len(list))
	return nil
}

// printTable prints the rows as docs/contract.md has them.
func printTable(list []mutant, verdicts []verdict) {
	fmt.Println("| point | guard taken out | in | test that failed |")
	fmt.Println("|---|---|---|---|")
	for i, m := range list {
		fmt.Println(m.row(verdicts[i].failed))
	}
}

// row names the subtest too if the row's test is one.
func (m *mutant) row(failed string) string {
	if _, pattern := m.pattern(); !strings.Contains(pattern, "/") {
		failed, _, _ = strings.Cut(failed, "/")
	}
	return fmt.Sprintf("%s `%s` |", m.head(), failed)
}

// head is a row of the table as far as the list has it.
func (m *mutant) head() string {
	return fmt.Sprintf("| %d | %s | `%s` | `%s`", m.point, m.guard, m.edits[0].file, m.pkg())
}

// pkg is the folder whose tests are run.
func (m *mutant) pkg() string {
	i := slices.IndexFunc(m.test, func(arg string) bool { return strings.HasPrefix(arg, "./") })
	return strings.TrimPrefix(m.test[max(i, 0)], "./")
}
