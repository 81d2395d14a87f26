package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/proof/cluster"
	"github.com/botwired/botwired/proof/cluster/check"
	"github.com/botwired/botwired/proof/cluster/fleet"
)

const (
	bucket = "trial"
	stream = "KV_" + bucket
	// patience bounds what may take its time on a busy machine: elections, and a flush of all that waits.
	patience = 4 * time.Minute
)

// trial is one run.
type trial struct {
	settings
	dir      string
	servers  *cluster.Servers
	daemons  []*fleet.Daemon
	networks []*cluster.Client
	books    []*books
	began    time.Time
	kills    int
	cuts     []check.Cut
	progress progress
}

// newTrial starts the daemons.
func newTrial(ctx context.Context, o settings, s *cluster.Servers, dir string) (*trial, error) {
	t := &trial{settings: o, dir: dir, servers: s, began: time.Now(), progress: newProgress(os.Stderr)}
	for host := range o.hosts {
		network, err := s.NewClient(ctx)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		if host == 0 {
			within, cancel := context.WithTimeout(ctx, patience) // the servers have to find each other
			err := fleet.MakeBucket(within, network.URL(), bucket)
			cancel()
			if err != nil {
				return nil, err
			}
		}
		d, err := fleet.Start(ctx, fleet.Options{
			Program: o.program, Dir: filepath.Join(dir, fmt.Sprintf("host%d", host)), Upstream: network.URL(), Flags: fleet.OverBucket(bucket),
		})
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.daemons = append(t.daemons, d)
		t.networks = append(t.networks, network)
		t.books = append(t.books, new(books))
	}
	return t, nil
}

// now is the time since the start.
func (t *trial) now() time.Duration { return time.Since(t.began) }

// close ends the daemons.
func (t *trial) close() error {
	failed := make([]error, len(t.daemons))
	var work sync.WaitGroup
	for i, d := range t.daemons {
		work.Go(func() { failed[i] = d.Stop() })
	}
	work.Wait()
	return errors.Join(failed...)
}

func (t *trial) run(ctx context.Context) error {
	if err := t.first(ctx); err != nil {
		return err
	}
	t.say("%d daemons are at work, with %d callers each", t.hosts, t.callers)
	if err := t.live(ctx); err != nil {
		return err
	}
	t.say("the load has ended: flushing and reading all that is left")
	h, faults, err := t.judge(ctx)
	if err != nil {
		return err
	}
	t.report(h)
	if err := t.verdict(faults); err != nil || t.partition > 0 || t.lasts > 0 {
		return err
	}
	return t.losses(ctx, h)
}

// first waits until the bucket is there: the servers have to find each other.
func (t *trial) first(ctx context.Context) error {
	for _, d := range t.daemons {
		if _, err := d.Put(ctx, check.Entry{Namespace: "start", Key: "start"}, "start"); err != nil {
			return err
		}
		if err := d.Flush(ctx, patience); err != nil {
			return fmt.Errorf("the bucket does not take the first write: %w", err)
		}
	}
	return nil
}

// live has the callers work amid the faults.
func (t *trial) live(ctx context.Context) error {
	loaded, end := context.WithCancel(ctx)
	defer end()
	var work sync.WaitGroup
	for host := range t.daemons {
		for i := range t.callers {
			c := &caller{trial: t, host: host, name: fmt.Sprintf("h%d.c%d", host, i), books: t.books[host]}
			work.Go(func() { c.work(loaded) })
		}
	}
	work.Go(func() { t.tell(loaded) })
	err := t.faults(ctx)
	end()
	work.Wait()
	t.progress.end()
	return err
}

// tellEvery is how often the progress line changes.
const tellEvery = 10 * time.Second

// tell shows on a terminal how the run does.
func (t *trial) tell(ctx context.Context) {
	for tasks.Sleep(ctx, tellEvery) == nil {
		writes, reads, pending := 0, 0, 0
		for host, b := range t.books {
			b.mu.Lock()
			writes, reads = writes+len(b.writes), reads+len(b.reads)
			b.mu.Unlock()
			n, err := t.daemons[host].Pending(ctx)
			if err != nil {
				continue // the daemon's end shows elsewhere
			}
			pending += n
		}
		t.progress.show("%6s  %d writes, %d reads, %d pending, %d leaders killed", t.now().Round(time.Second), writes, reads, pending, t.kills)
	}
}
