package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/proof/machine"
)

// histories holds a conversation with each adapter that keeps one, and counts what that costs
// upstream. For each message, an agent reads its history and adds the message. Each adapter does so
// directly with a memory service at a distance, through a botwired in front of it, and through
// botwired with an agent that thinks between two messages: nothing coalesces for that one.
//
// An adapter is a Python file in the folder of the scripts. driver.py there is what they share, and
// says what such a file has. A name that begins with another's and a hyphen is a variant of it.
func histories(ctx context.Context, args []string) (err error) {
	o, err := parseHistoriesOptions(args)
	if err != nil {
		return err
	}
	if err := hasPlace(o.page, historiesMark); err != nil {
		return err
	}
	l, err := newLab(o.program, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	r := &historiesReport{Machine: machine.This(ctx, o.dir), Options: o.historiesSettings}
	progress := newProgress(os.Stderr)
	defer progress.end()
	progress.show("agents that think")
	if r.Rows, err = thinking(ctx, l, o); err != nil {
		return err
	}
	for _, row := range r.Rows {
		progress.show("%s: directly", row.Name)
		if err := row.Direct.hold(ctx, l, o, row.Name, holding{}); err != nil {
			return fmt.Errorf("%s, directly: %w", row.Name, err)
		}
		progress.show("%s: through botwired", row.Name)
		if err := row.Through.hold(ctx, l, o, row.Name, holding{through: true}); err != nil {
			return fmt.Errorf("%s, through botwired: %w", row.Name, err)
		}
	}
	progress.end()
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	return errors.Join(writeBetween(o.page, historiesMark, r.print), writeJSON(o.json, r))
}

// thinking has all adapters hold the conversation with thought at once: only its writes count.
func thinking(ctx context.Context, l *lab, o *historiesOptions) ([]*historyRow, error) {
	rows := make([]*historyRow, len(o.adapters))
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range o.adapters {
		row := &historyRow{Name: name}
		rows[i] = row
		group.Go(func() error {
			if err := row.Thinking.hold(ctx, l, o, name, holding{through: true, think: o.Think}); err != nil {
				return fmt.Errorf("%s, through botwired, with thought: %w", name, err)
			}
			return nil
		})
	}
	return rows, group.Wait()
}

// historiesSettings are the settings that the figures depend on.
type historiesSettings struct {
	Messages int           `json:"messages"`
	Latency  time.Duration `json:"latency"` // ns; of the memory service
	Think    time.Duration `json:"think"`   // ns; between two messages, where the agent thinks
	Quota    int           `json:"quota"`   // writes a day
}

type historiesOptions struct {
	historiesSettings
	program, dir, json, page, python, scripts, packages string
	adapters                                            []string // names of scripts
}

func parseHistoriesOptions(args []string) (*historiesOptions, error) {
	o := &historiesOptions{}
	flags := flag.NewFlagSet("bench histories", flag.ContinueOnError)
	flags.IntVar(&o.Messages, "messages", 200, "how many messages")
	flags.DurationVar(&o.Latency, "latency", 50*time.Millisecond, "how far away the memory service is")
	flags.DurationVar(&o.Think, "think", 250*time.Millisecond, "how long an agent thinks between two messages, where it does")
	flags.IntVar(&o.Quota, "quota", 1000, "how many writes a day the service takes")
	flags.StringVar(&o.python, "python", "python3", "a Python that has the frameworks")
	flags.StringVar(&o.packages, "packages", "clients/python/src", "folder of the Python package with the adapters")
	flags.StringVar(&o.scripts, "scripts", "proof/bench/histories", "folder of the adapters' scripts")
	only := flags.String("only", "", "names of adapters, with commas; without it, all")
	flags.StringVar(&o.program, "program", "bin/botwired", "the botwired to measure")
	flags.StringVar(&o.dir, "dir", "bin", "folder for the daemon's data, on the disk to measure")
	flags.StringVar(&o.json, "json", "bin/histories.json", "file for the figures in JSON")
	flags.StringVar(&o.page, "page", "", "a page that gets the table between its marks")
	quick := flags.Bool("quick", false, "a short conversation, to see that everything works; its figures mean nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *quick {
		o.Messages, o.Latency, o.Think = 10, time.Millisecond, time.Millisecond
	}
	if o.Messages < 1 || o.Latency < 0 || o.Think < 0 || o.Quota < 1 || flags.NArg() > 0 {
		return nil, errors.New("expected a message at least, a quota and no argument")
	}
	return o, o.find(*only)
}

// driver is the name of the script that the adapters share.
const driver = "driver"

// find names the adapters: those in only, or all.
func (o *historiesOptions) find(only string) error {
	files, err := filepath.Glob(filepath.Join(o.scripts, "*.py"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".py"); name != driver {
			o.adapters = append(o.adapters, name)
		}
	}
	if only != "" {
		all := o.adapters
		o.adapters = strings.Split(only, ",")
		for _, name := range o.adapters {
			if !slices.Contains(all, name) {
				return fmt.Errorf("there is no adapter %q in %s: expected some of %s", name, o.scripts, strings.Join(all, ", "))
			}
		}
	}
	if len(o.adapters) == 0 {
		return fmt.Errorf("there is no adapter in %s", o.scripts)
	}
	return nil
}
