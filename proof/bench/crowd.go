package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/botwired/botwired/proof/load"
	"github.com/botwired/botwired/proof/loopback"
	"github.com/botwired/botwired/proof/machine"
)

// crowd measures what the dashboard asks for of a daemon with very many namespaces and pending
// writes. It fills a daemon whose upstream is down, follows its events, and has callers write on
// while it makes the page's requests, one after another. It checks every answer, and that an event
// of every write has come.
func crowd(ctx context.Context, args []string) (err error) {
	o, err := parseCrowdOptions(args)
	if err != nil {
		return err
	}
	l, err := newLab(o.program, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	r := &crowdReport{Machine: machine.This(ctx, o.dir), Options: o.crowdSettings}
	p := newProgress(os.Stderr)
	defer p.end()
	p.show("writing to %d namespaces", o.Namespaces)
	daemon, err := fillCrowd(ctx, l, &o.crowdSettings)
	if err != nil {
		return err
	}
	if r.Live, r.Requests, err = watchCrowd(ctx, daemon, &o.crowdSettings, p); err != nil {
		return err
	}
	p.end()
	r.Goals = crowdGoals(r)
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	return errors.Join(writeJSON(o.json, r), checkGoals(r.Goals, o.strict))
}

// crowdSettings are the settings that the figures depend on.
type crowdSettings struct {
	Namespaces int `json:"namespaces"`
	Each       int `json:"each"`   // pending writes of a namespace at first
	Times      int `json:"times"`  // how often crowd makes each request
	Writes     int `json:"writes"` // per second, meanwhile
}

func (s *crowdSettings) pending() int { return s.Namespaces * s.Each }

type crowdOptions struct {
	crowdSettings
	program, dir, json string
	strict             bool
}

// leastCrowd is the fewest namespaces of a crowd: more than the page asks for at a time.
const leastCrowd = 200

func parseCrowdOptions(args []string) (*crowdOptions, error) {
	o := &crowdOptions{}
	flags := flag.NewFlagSet("bench crowd", flag.ContinueOnError)
	flags.IntVar(&o.Namespaces, "namespaces", 10_000, "namespaces")
	flags.IntVar(&o.Each, "each", 10, "pending writes of each namespace")
	flags.IntVar(&o.Times, "times", 20, "how often bench makes each request")
	flags.IntVar(&o.Writes, "writes", 200, "how many writes the callers make a second meanwhile")
	flags.StringVar(&o.program, "program", "bin/botwired", "the botwired to measure")
	flags.StringVar(&o.dir, "dir", "bin", "folder for the daemon's data, on the disk to measure")
	flags.StringVar(&o.json, "json", "bin/crowd.json", "file for the figures in JSON")
	flags.BoolVar(&o.strict, "strict", false, "fail when a figure misses its goal")
	quick := flags.Bool("quick", false, "few namespaces and requests, to see that everything works; its figures mean nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *quick {
		o.Namespaces, o.Times = leastCrowd, 3
	}
	if o.Namespaces < leastCrowd || o.Each < 1 || o.pending()%fillers != 0 || o.Times < 1 || o.Writes < 1 || flags.NArg() > 0 {
		return nil, fmt.Errorf("expected at least %d namespaces, at least one of the others, a multiple of %d pending writes, and no argument",
			leastCrowd, fillers)
	}
	return o, nil
}

// fillCrowd starts a daemon with its upstream down, and gives every namespace its writes.
func fillCrowd(ctx context.Context, l *lab, s *crowdSettings) (*server, error) {
	nowhere, err := loopback.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	daemon, err := l.start(ctx, l.botwired(nowhere, "--journal-max-bytes", "64GiB"))
	if err != nil {
		return nil, err
	}
	write := func(dst []byte, connection, n int) []byte {
		i := connection + n*fillers
		dst = append(append(dst, crowdNamespace(i%s.Namespaces)...), "/item-"...)
		return strconv.AppendInt(dst, int64(i/s.Namespaces), 10)
	}
	err = fill(ctx, daemon.address, load.HTTPAnswer, s.pending(), httpPuts(daemon.address, write))
	return daemon, err
}

// crowdNamespace names the i-th namespace; the names are in the order of the numbers.
func crowdNamespace(i int) string { return fmt.Sprintf("agent-%06d", i) }

// watchCrowd makes the requests while callers write and the events are followed.
func watchCrowd(ctx context.Context, daemon *server, s *crowdSettings, p progress) (*liveness, []*crowdFigures, error) {
	w := &crowdWatch{settings: s, address: daemon.address}
	feed, err := followCrowd(ctx, daemon.address)
	if err != nil {
		return nil, nil, err
	}
	defer feed.close()
	writing, stop := context.WithCancel(ctx)
	defer stop()
	written := make(chan error, 1)
	go func() { written <- w.write(writing, feed) }()
	requests, err := w.ask(ctx, p)
	stop()
	if err = errors.Join(err, <-written); err != nil {
		return nil, nil, err
	}
	p.show("waiting for the events of %d writes", w.acknowledged.Load())
	if err := feed.complete(ctx, eventsWithin); err != nil {
		return nil, nil, err
	}
	return &liveness{
		Writes: int(w.acknowledged.Load()), Put: timesOf(w.puts), Event: timesOf(feed.delays()),
	}, requests, nil
}

// eventsWithin bounds the wait for the events of writes after the last of them.
const eventsWithin = 10 * time.Second
