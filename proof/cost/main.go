package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

type options struct {
	page   string
	dir    string
	only   string
	runs   int
	update bool
	// objects says that nobody traces the daemon: its system calls are not counted.
	objects bool
}

func main() {
	var o options
	flag.StringVar(&o.page, "page", "docs/performance.md", "the page with the table of bounds")
	flag.StringVar(&o.dir, "dir", "bin", "where the daemons have their data: a folder on a disk")
	flag.StringVar(&o.only, "only", "", "measure only the kinds of requests whose name has this in it")
	flag.IntVar(&o.runs, "runs", 1, "how often to measure; the most counts, but for the worst run in ten")
	flag.BoolVar(&o.objects, "objects", false, "count allocations only, on a machine that does not permit ptrace")
	flag.BoolVar(&o.update, "update", false, "write the bounds from what was measured instead of checking them")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "cost: expected flags only, and not %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

// run measures, and checks or writes the bounds.
func (o *options) run(ctx context.Context) error {
	if o.runs < 1 || !slices.ContainsFunc(works(), o.measures) {
		return fmt.Errorf("nothing to measure: %d runs of the kinds of requests with %q in their names", o.runs, o.only)
	}
	if o.objects && o.update {
		return errors.New("-update needs the system calls, which -objects does not count")
	}
	allowed, err := readBounds(o.page)
	if err != nil {
		return err
	}
	most, err := o.measure(ctx, allowed)
	if err != nil {
		return err
	}
	var measured []kind
	for _, k := range kinds() {
		if _, ok := most[k]; ok {
			measured = append(measured, k)
		}
	}
	fmt.Print(strings.Replace(table(measured, most), ", at most", "", 1))
	var wrong []error
	for _, k := range measured {
		if o.update {
			allowed[k] = boundOf(most[k])
			continue
		}
		for _, text := range allowed.exceeded(k, most[k]) {
			wrong = append(wrong, errors.New(text))
		}
	}
	if o.update {
		return writeBounds(o.page, kinds(), allowed)
	}
	if wrong != nil {
		return fmt.Errorf("a request costs more than %s allows: find out why; if it has to, `make cost COST='-update -runs 20'` "+
			"writes other bounds:\n%w", o.page, errors.Join(wrong...))
	}
	return nil
}

// measures says whether a kind of requests is among those to measure.
func (o *options) measures(w work) bool { return strings.Contains(w.name, o.only) }

// tries is how often a kind of requests is measured that costs too much: the least of each count is held against
// the bounds. A busy machine may disturb one measurement. More work in the code is in each of them.
const tries = 3

// measure returns the counts of each kind, over all runs.
func (o *options) measure(ctx context.Context, allowed bounds) (most map[kind]counts, err error) {
	dir, err := os.MkdirTemp(o.dir, "cost-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	program, err := build(ctx, dir)
	if err != nil {
		return nil, err
	}
	all := make(map[kind][]counts)
	for n := range o.runs {
		if err := o.once(ctx, program, filepath.Join(dir, fmt.Sprint(n)), allowed, all); err != nil {
			return nil, err
		}
	}
	most = make(map[kind]counts)
	for k, c := range all {
		most[k] = worst(c)
	}
	return most, nil
}

// once does one run in a new folder.
func (o *options) once(ctx context.Context, program, dir string, allowed bounds, all map[kind][]counts) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	s, err := openStage(ctx, program, dir)
	s.objectsOnly = o.objects
	defer func() { err = errors.Join(err, s.close(), os.RemoveAll(dir)) }()
	if err != nil {
		return err
	}
	for _, w := range works() {
		if !o.measures(w) {
			continue
		}
		for _, n := range connections {
			k := kind{w.name, n}
			c, err := s.measure(ctx, w, n)
			for try := 1; err == nil && try < tries && !o.update && allowed.exceeded(k, c) != nil; try++ {
				var again counts
				again, err = s.measure(ctx, w, n)
				c = least(c, again)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			all[k] = append(all[k], c)
		}
	}
	return nil
}
