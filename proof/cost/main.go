package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

type options struct {
	program string
	page    string
	dir     string
	only    string
	runs    int
	update  bool
}

func main() {
	var o options
	flag.StringVar(&o.program, "program", "bin/botwired", "botwired, which make build makes")
	flag.StringVar(&o.page, "page", "docs/performance.md", "the page with the table of bounds")
	flag.StringVar(&o.dir, "dir", "bin", "where the daemons have their data, on a disk")
	flag.StringVar(&o.only, "only", "", "measure only the kinds of requests whose name has this in it")
	flag.IntVar(&o.runs, "runs", 1, "how often to measure; the most counts")
	flag.BoolVar(&o.update, "update", false, "write the bounds from what was measured instead of checking them")
	flag.Parse()
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
	allowed, err := readBounds(o.page)
	if err != nil {
		return err
	}
	most := make(map[kind]counts)
	for range o.runs {
		if err := o.measure(ctx, most); err != nil {
			return err
		}
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

// measure does one run and keeps the most of each count.
func (o *options) measure(ctx context.Context, most map[kind]counts) (err error) {
	program, err := filepath.Abs(o.program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "cost-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	s, err := openStage(ctx, program, dir)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return err
	}
	for _, w := range works() {
		for _, n := range connections {
			if !strings.Contains(w.name, o.only) {
				continue
			}
			c, err := s.measure(ctx, w, n)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			k := kind{w.name, n}
			before := most[k]
			for i := range c {
				c[i] = max(c[i], before[i])
			}
			most[k] = c
		}
	}
	return nil
}
