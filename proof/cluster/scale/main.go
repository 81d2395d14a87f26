package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/botwired/botwired/proof/cluster"
	"github.com/botwired/botwired/proof/cluster/fleet"
)

// settings say what a run measures.
type settings struct {
	program string
	page    string
	writes  int // of one host, that another one waits for
	watched int // entries of the bucket whose watch is weighed
	drained int // pending writes, which are the keys of the LIST too
	lists   int // how many
	only    string
}

const (
	servers = 3
	// patience bounds what may take its time on a busy machine.
	patience = 30 * time.Minute
)

func main() {
	cluster.ServeIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	var o settings
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.StringVar(&o.program, "program", "bin/botwired", "the daemon")
	f.StringVar(&o.page, "page", "", "the page that gets the table; none is only printed to")
	f.IntVar(&o.writes, "writes", 500, "how many writes of one host another one waits for")
	f.IntVar(&o.watched, "watched", 10_000, "how many entries the bucket has whose watch is weighed")
	f.IntVar(&o.drained, "drained", 100_000, "how many pending writes drain, each to a key of its own")
	f.IntVar(&o.lists, "lists", 200, "how often a listing is asked for")
	f.StringVar(&o.only, "only", "", "measure only the parts that have this in their names, and write no page")
	quick := f.Bool("quick", false, "hundredths of all, to try it")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *quick {
		o.writes, o.watched, o.drained, o.lists = 20, 500, 1000, 20
	}
	if o.only != "" {
		o.page = ""
	}
	dir, err := os.MkdirTemp("", "botwired-scale-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l := &lab{settings: o, dir: dir}
	defer func() { err = errors.Join(err, l.close()) }()
	if l.servers, err = cluster.Start(ctx, filepath.Join(dir, "servers"), servers); err != nil {
		return err
	}
	r, err := l.measure(ctx)
	if err != nil {
		return err
	}
	return r.write(ctx, o.page)
}

// lab has the processes of a run.
type lab struct {
	settings
	dir     string
	servers *cluster.Servers
	number  int // of the next daemon
	daemons []*fleet.Daemon
	hubs    []*hub
}

// daemon starts a daemon with a directory of its own.
func (l *lab) daemon(ctx context.Context, upstream string, flags ...string) (*fleet.Daemon, error) {
	l.number++
	d, err := fleet.Start(ctx, fleet.Options{
		Program: l.program, Dir: filepath.Join(l.dir, fmt.Sprintf("host%d", l.number)), Upstream: upstream, Flags: flags,
	})
	if err == nil {
		l.daemons = append(l.daemons, d)
	}
	return d, err
}

// rest ends the daemons of a part, so that the next one has the machine alone.
func (l *lab) rest() (err error) {
	for _, d := range l.daemons {
		err = errors.Join(err, d.Stop())
	}
	for _, h := range l.hubs {
		err = errors.Join(err, h.stop())
	}
	l.daemons, l.hubs = nil, nil
	return err
}

func (l *lab) close() error {
	err := l.rest()
	if l.servers != nil {
		err = errors.Join(err, l.servers.Close())
	}
	return err
}

// nats is the URL of the servers.
func (l *lab) nats(ctx context.Context) (string, error) {
	network, err := l.servers.NewClient(ctx)
	if err != nil {
		return "", err
	}
	return network.URL(), nil
}
