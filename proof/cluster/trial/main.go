package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/botwired/botwired/proof/cluster"
)

// settings say what a run does.
type settings struct {
	program   string        // bin/botwired
	hosts     int           // daemons
	callers   int           // of each daemon
	think     time.Duration // of each caller, between its requests, on average
	keys      int           // in each namespace
	hot       int           // keys that many callers write
	lasts     time.Duration // 0: one of each fault
	partition time.Duration // 0: none
	up        bool          // only the servers
}

const servers = 3

func main() {
	cluster.ServeIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o settings, err error) {
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	f.StringVar(&o.program, "program", "bin/botwired", "the daemon")
	f.IntVar(&o.hosts, "hosts", 3, "how many daemons")
	f.IntVar(&o.callers, "callers", 4, "how many callers each daemon has")
	f.DurationVar(&o.think, "think", 40*time.Millisecond, "how long a caller rests between two requests, on average")
	f.IntVar(&o.keys, "keys", 250, "how many keys a namespace has, at most 1000")
	f.IntVar(&o.hot, "hot", 24, "how many keys all callers write often")
	f.DurationVar(&o.lasts, "for", 0, "how long, with the leader killed each minute; otherwise one of each fault")
	f.DurationVar(&o.partition, "partition", 0, "one cut for that long, instead")
	f.BoolVar(&o.up, "up", false, "only start three servers, until Ctrl-C")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.hosts < 2 || o.callers < 1 || o.keys < 1 || o.keys > 1000 || o.hot < 1 || o.hot > o.keys || f.NArg() > 0 {
		return o, errors.New("there are 2 hosts and a caller at least, and at most 1000 keys in a namespace")
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "botwired-cluster-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%w\nthe directories of servers and daemons are in %s", err, dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	s, err := cluster.Start(ctx, dir, servers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.up {
		return serve(ctx, s)
	}
	t, err := newTrial(ctx, o, s, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	return t.run(ctx)
}

// serve says where the servers are, and waits for Ctrl-C.
func serve(ctx context.Context, s *cluster.Servers) error {
	url := "nats://"
	for i, one := range s.All {
		if i > 0 {
			url += ","
		}
		url += one.Address()
	}
	fmt.Println("Three servers. Their disks are lost with them, at Ctrl-C. Try two daemons:")
	for i := range 2 {
		fmt.Printf("  bin/botwired serve --upstream-url %s --listen 127.0.0.1:%d --data-dir .run/host%d\n", url, 2701+i, i+1)
	}
	for _, one := range s.All {
		fmt.Printf("%s: monitoring at %s, process %d\n", one.Name(), one.Monitor(), one.Pid())
	}
	<-ctx.Done()
	return nil
}
