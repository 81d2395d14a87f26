package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// growth measures a daemon that holds ever more. For each size, a new daemon takes so
// many writes of distinct entries while its upstream is down. growth kills it, starts
// it again, and measures it with all of them pending. Then upstream comes up, and the
// daemon carries everything there. growth kills it, starts it again, and measures it
// with all of them settled.
//
// Every measurement takes turns with a second daemon, which holds 1,000 pending writes
// all the time. A disturbance of the machine hits both, and the ratio of the two is the
// cost of growth.
func growth(ctx context.Context, args []string) (err error) {
	o, err := parseGrowthOptions(args)
	if err != nil {
		return err
	}
	l, err := newLab(o.program, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	r := &growthReport{Machine: thisMachine(ctx, o.dir), Options: o.growthSettings}
	g := &grower{lab: l, options: o, progress: newProgress(os.Stderr)}
	defer g.progress.end()
	if g.reference, err = g.begin(ctx, referenceSize); err != nil {
		return err
	}
	for _, size := range o.Sizes {
		points, err := g.measureSize(ctx, size)
		if err != nil {
			return fmt.Errorf("%d entries: %w", size, err)
		}
		r.Points = append(r.Points, points...)
	}
	g.progress.end()
	r.Goals = growthGoals(r)
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	return errors.Join(writeJSON(o.json, r), r.plot(o.svg), checkGoals(r.Goals, o.strict))
}

// growthSettings are the settings that the figures depend on.
type growthSettings struct {
	Sizes    []int         `json:"sizes"`
	Rounds   int           `json:"rounds"`
	For      time.Duration `json:"for"` // ns; of GET, and as long of PUT, in a round
	Restarts int           `json:"restarts"`
	Rest     time.Duration `json:"rest"` // ns; the longest wait for the disk before bench takes its size
}

type growthOptions struct {
	growthSettings
	program, dir, json, svg string
	strict                  bool
}

func parseGrowthOptions(args []string) (*growthOptions, error) {
	o := &growthOptions{}
	flags := flag.NewFlagSet("bench growth", flag.ContinueOnError)
	sizes := flags.String("sizes", "1000,100000,1000000", "how many entries")
	flags.IntVar(&o.Rounds, "rounds", 5, "rounds")
	flags.DurationVar(&o.For, "for", time.Second, "how long a round measures GET, and as long PUT")
	flags.IntVar(&o.Restarts, "restarts", 3, "how often bench kills the daemon and starts it again; the slowest start counts")
	flags.DurationVar(&o.Rest, "rest", 20*time.Second, "the longest wait for the disk to come to rest")
	flags.StringVar(&o.program, "program", "bin/botwired", "the botwired to measure")
	flags.StringVar(&o.dir, "dir", "bin", "folder for the daemons' data, on the disk to measure")
	flags.StringVar(&o.json, "json", "bin/growth.json", "file for the figures in JSON")
	flags.StringVar(&o.svg, "svg", "docs/growth.svg", "file for the plot")
	flags.BoolVar(&o.strict, "strict", false, "fail when a figure misses its goal")
	quick := flags.Bool("quick", false, "small sizes and short rounds, to see that everything works; its figures mean nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *quick {
		*sizes, o.Rounds, o.For, o.Restarts, o.Rest = "1000,5000", 1, 100*time.Millisecond, 1, time.Second
	}
	if o.Rounds < 1 || o.For <= 0 || o.Restarts < 1 || flags.NArg() > 0 {
		return nil, errors.New("expected at least one round and one restart, a time above zero and no argument")
	}
	var err error
	if o.Sizes, err = counts("sizes", *sizes); err != nil {
		return nil, err
	}
	for _, size := range o.Sizes {
		if size%fillers != 0 {
			return nil, fmt.Errorf("-sizes: %d is no multiple of %d", size, fillers)
		}
	}
	return o, nil
}
