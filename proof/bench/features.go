package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/botwired/botwired/proof/machine"
)

// features measures what each feature of botwired costs a request. For each feature it measures
// two daemons that differ in that feature alone. They live side by side, with the same entries, and
// take short turns under the same load: without, with, with, without, then the other way round, and so
// on. The figure that decides is the CPU time of the daemon for each request.
//
// A round has new daemons: where a process happens to have its memory makes it a little faster or
// slower than another of the same program for as long as it lives. A ratio is one within a round,
// and the figure in the table is the median of these. The first row compares the same daemon
// with itself: no smaller difference than its own can be seen.
//
// No feature is taken out of the program for this. A feature without a setting is measured by those
// who use it: see allFeatures.
func features(ctx context.Context, args []string) (err error) {
	o, err := parseFeaturesOptions(args)
	if err != nil {
		return err
	}
	if err := hasPlace(o.page, featuresMark); err != nil {
		return err
	}
	l, err := newLab(o.program, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	r := &featuresReport{Machine: machine.This(ctx, o.dir), Options: o.featuresSettings}
	t, err := openTrial(ctx, l, &o.featuresSettings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if r.Rows, err = t.measureFeatures(ctx, o.only); err != nil {
		return err
	}
	r.Goals = featureGoals(r.Rows)
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	return errors.Join(writeBetween(o.page, featuresMark, r.printTables), writeJSON(o.json, r), checkGoals(r.Goals, o.strict))
}

// featuresSettings are the settings that the figures depend on. Times are nanoseconds in JSON.
type featuresSettings struct {
	Rounds   int           `json:"rounds"`
	Turns    int           `json:"turns"`    // of a daemon in a round, for reads
	For      time.Duration `json:"for"`      // of one of these turns; writes have two, of the same sum
	Warmup   time.Duration `json:"warmup"`   // of the load before that
	Writes   int           `json:"writes"`   // of a turn that ends when upstream has them
	Latency  time.Duration `json:"latency"`  // of upstream, where it has to be far away
	Receipts int           `json:"receipts"` // that a daemon keeps
}

type featuresOptions struct {
	featuresSettings
	program, dir, json, page string
	only                     *regexp.Regexp
	strict                   bool
}

func parseFeaturesOptions(args []string) (*featuresOptions, error) {
	o := &featuresOptions{}
	flags := flag.NewFlagSet("bench features", flag.ContinueOnError)
	flags.IntVar(&o.Rounds, "rounds", 9, "rounds")
	flags.IntVar(&o.Turns, "turns", 50, "how many turns a daemon has in a round, an even number; two, as long together, for writes")
	flags.DurationVar(&o.For, "for", 40*time.Millisecond, "how long one of these turns lasts")
	flags.DurationVar(&o.Warmup, "warmup", 10*time.Millisecond, "how long the load lasts before that")
	flags.IntVar(&o.Writes, "writes", 6400, "how many writes are followed until upstream has them, a multiple of 64")
	flags.DurationVar(&o.Latency, "latency", 50*time.Millisecond, "how far away upstream is from the durable writes")
	flags.IntVar(&o.Receipts, "receipts", 100_000, "how many receipts a daemon keeps, a multiple of 50")
	flags.StringVar(&o.program, "program", "bin/botwired", "the botwired to measure")
	flags.StringVar(&o.dir, "dir", "bin", "folder for the daemons' data, on the disk to measure")
	flags.StringVar(&o.json, "json", "bin/features.json", "file for the figures in JSON")
	flags.StringVar(&o.page, "page", "", "a page that gets the table of all features between its marks")
	only := flags.String("only", "", "only the features that match this regular expression; no page gets them")
	flags.BoolVar(&o.strict, "strict", false, "fail when a figure misses its goal")
	quick := flags.Bool("quick", false, "one short round, to see that everything works; its figures mean nothing, and no page gets them")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *quick {
		o.Rounds, o.Turns, o.Writes, o.Receipts, o.Latency = 1, 2, 128, 500, quickLatency
	}
	if o.Rounds < 1 || o.Turns < 2 || o.Turns%2 != 0 || o.For <= 0 || o.Warmup <= 0 || o.Latency < 0 || flags.NArg() > 0 ||
		o.Writes < 1 || o.Writes%many != 0 || o.Receipts < 1 || o.Receipts%fillers != 0 {
		return nil, fmt.Errorf("expected at least one round, an even number of turns, times above zero, a multiple of %d writes and of %d receipts, and no argument",
			many, fillers)
	}
	if *quick || *only != "" {
		o.page = ""
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(allFeatures(o.Receipts), func(f feature) bool { return o.only.MatchString(f.name) }) {
		return nil, fmt.Errorf("-only: no feature matches %q", *only)
	}
	return o, nil
}
