package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/botwired/botwired/proof/machine"
)

// growth measures a daemon that holds ever more. For each size, a new daemon takes so
// many writes of distinct entries while its upstream is down. growth kills it, starts
// it again, and measures it with all of them pending. Then upstream comes up, and the
// daemon carries everything there. growth kills it, starts it again, and measures it
// with all of them settled.
//
// One more daemon has its entries in very many namespaces. Once it has carried the first of
// its sizes upstream, growth kills it and writes further entries into its journal, as settled
// ones: what is pending stays bounded while upstream is up, and the requests for ten million
// entries would take an hour. growth starts the daemon again and measures it. Then upstream goes
// away and comes back, and growth measures how fast such a daemon drains.
//
// Every measurement takes turns with a second daemon, which holds 1,000 pending writes
// all the time. A disturbance of the machine hits both, and the ratio of the two is the
// cost of growth.
func growth(ctx context.Context, args []string) (err error) {
	o, err := parseGrowthOptions(args)
	if err != nil {
		return err
	}
	if err := hasPlace(o.page, growthMark); err != nil {
		return err
	}
	l, err := newLab(o.program, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	r := &growthReport{Machine: machine.This(ctx, o.dir), Options: o.growthSettings}
	g := &grower{lab: l, options: o, progress: newProgress(os.Stderr)}
	defer g.progress.end()
	if g.reference, err = g.begin(ctx, referenceSize, referenceSize); err != nil {
		return err
	}
	for _, l := range o.lives() {
		points, err := g.live(ctx, l)
		if err != nil {
			return fmt.Errorf("%v entries in %d namespaces: %w", l.sizes, l.namespaces, err)
		}
		r.Points = append(r.Points, points...)
	}
	g.progress.end()
	r.Goals = growthGoals(r)
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	return errors.Join(writeBetween(o.page, growthMark, r.print), writeJSON(o.json, r), r.plot(o.svg), checkGoals(r.Goals, o.strict))
}

// growthSettings are the settings that the figures depend on.
type growthSettings struct {
	Sizes          []int         `json:"sizes"`
	Namespaces     int           `json:"namespaces"` // of the entries of each of the sizes
	Wide           []int         `json:"wide"`       // sizes of the one daemon with very many namespaces
	WideNamespaces int           `json:"wide_namespaces"`
	Rounds         int           `json:"rounds"`
	For            time.Duration `json:"for"` // ns; of GET, and as long of PUT, in a round
	Restarts       int           `json:"restarts"`
	Rest           time.Duration `json:"rest"` // ns; the longest wait for the disk before bench takes its size
}

type growthOptions struct {
	growthSettings
	program, dir, json, svg, page string
	strict                        bool
}

// plotted is the plot of the documentation.
const plotted = "docs/growth.svg"

func parseGrowthOptions(args []string) (*growthOptions, error) {
	o := &growthOptions{}
	flags := flag.NewFlagSet("bench growth", flag.ContinueOnError)
	sizes := flags.String("sizes", "1000,100000,1000000", "how many entries")
	flags.IntVar(&o.Namespaces, "namespaces", 1000, "how many namespaces they are in")
	wide := flags.String("wide", "1000000,10000000", "how many entries the daemon holds that has very many namespaces")
	flags.IntVar(&o.WideNamespaces, "wide-namespaces", 100_000, "how many it has")
	flags.IntVar(&o.Rounds, "rounds", 5, "rounds")
	flags.DurationVar(&o.For, "for", time.Second, "how long a round measures GET, and as long PUT")
	flags.IntVar(&o.Restarts, "restarts", 3, "how often bench kills the daemon and starts it again; the slowest start counts")
	flags.DurationVar(&o.Rest, "rest", 20*time.Second, "the longest wait for the disk to come to rest")
	flags.StringVar(&o.program, "program", "bin/botwired", "the botwired to measure")
	flags.StringVar(&o.dir, "dir", "bin", "folder for the daemons' data, on the disk to measure")
	flags.StringVar(&o.json, "json", "bin/growth.json", "file for the figures in JSON")
	flags.StringVar(&o.svg, "svg", plotted, "file for the plot")
	flags.StringVar(&o.page, "page", "", "a page that gets the table between its marks")
	flags.BoolVar(&o.strict, "strict", false, "fail when a figure misses its goal")
	quick := flags.Bool("quick", false, "small sizes and short rounds, to see that everything works; its figures mean nothing, and no page gets them")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *quick {
		*sizes, *wide, o.WideNamespaces = "1000,5000", "2000,5000", 500
		o.Rounds, o.For, o.Restarts, o.Rest = 1, 50*time.Millisecond, 1, 100*time.Millisecond
		if o.page = ""; o.svg == plotted {
			o.svg = "bin/growth.svg"
		}
	}
	if o.Rounds < 1 || o.For <= 0 || o.Restarts < 1 || o.Namespaces < 1 || o.WideNamespaces < 1 || flags.NArg() > 0 {
		return nil, errors.New("expected at least one round, one restart and one namespace, a time above zero and no argument")
	}
	var err error
	if o.Sizes, err = sizesOf("sizes", *sizes); err != nil {
		return nil, err
	}
	if o.Wide, err = sizesOf("wide", *wide); err != nil {
		return nil, err
	}
	if !slices.IsSorted(o.Wide) {
		return nil, fmt.Errorf("-wide: %s does not grow", *wide)
	}
	return o, nil
}

// sizesOf reads a list of sizes, which may be empty. The daemons take writes from all fillers alike.
func sizesOf(name, list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	sizes, err := counts(name, list)
	if err != nil {
		return nil, err
	}
	for _, size := range sizes {
		if size%fillers != 0 {
			return nil, fmt.Errorf("-%s: %d is no multiple of %d", name, size, fillers)
		}
	}
	return sizes, nil
}
