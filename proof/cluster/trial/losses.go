package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/proof/cluster/check"
	"github.com/botwired/botwired/proof/cluster/fleet"
)

// newWrites is the number of writes of a new host over a bucket that went back: more than it has lost, so that its
// revisions have passed those that the other hosts know.
const newWrites = 4000

// losses has the bucket go back to an older copy while a host is away and a new host writes past what the others
// know, and then lose a namespace by a purge past all hosts. Each time all hosts notice it and restore, and hold what
// they held before: what was deleted stays deleted.
func (t *trial) losses(ctx context.Context, held *check.History) error {
	if err := t.goBack(ctx); err != nil {
		return err
	}
	if err := t.restore(ctx, held, func(s *api.Status) bool { return s.Upstream.Watch.Lost != "" }); err != nil {
		return err
	}
	purged := namespaces[len(namespaces)-1]
	t.say("%s is purged past all hosts", purged)
	if err := fleet.PurgeNamespace(ctx, t.networks[0].URL(), bucket, purged); err != nil {
		return err
	}
	return t.restore(ctx, held, func(s *api.Status) bool { return slices.Contains(fleet.Losses(s), purged) })
}

// restore waits until every host has noticed a loss, has each restore, and compares what all hold with what they held.
func (t *trial) restore(ctx context.Context, held *check.History, noticed func(*api.Status) bool) error {
	for host, d := range t.daemons {
		if err := t.awaitStatus(ctx, d, "the loss is noticed", noticed); err != nil {
			return fmt.Errorf("host %d: %w", host, err)
		}
	}
	for host, d := range t.daemons {
		err := d.Restore(ctx)
		if err == nil {
			err = t.awaitStatus(ctx, d, "the bucket has everything again", func(s *api.Status) bool {
				return s.Upstream.Watch.Lost == "" && s.Upstream.Watch.CaughtUp && s.Pending == 0 && len(fleet.Losses(s)) == 0
			})
		}
		if err != nil {
			return fmt.Errorf("host %d: %w", host, err)
		}
	}
	if err := t.hold(ctx, held); err != nil {
		return err
	}
	fmt.Println("All hosts have noticed the loss, and hold again what they held, and nothing that was deleted.")
	return nil
}

// goBack puts the copy of the servers' files back while the last host is away.
func (t *trial) goBack(ctx context.Context) error {
	t.say("the servers get their older files back while host %d is away, and a new host writes", len(t.daemons)-1)
	last := t.networks[len(t.networks)-1]
	last.Part()
	if err := t.servers.Kill(); err != nil {
		return err
	}
	for _, one := range t.servers.All {
		if err := one.PutBack(); err != nil {
			return err
		}
	}
	if err := errors.Join(t.servers.Restart(ctx), t.recovered(ctx), t.newHost(ctx)); err != nil {
		return err
	}
	last.Heal()
	return nil
}

// newHost lives a short life with a daemon that has never seen the bucket.
func (t *trial) newHost(ctx context.Context) (err error) {
	network, err := t.servers.NewClient(ctx)
	if err != nil {
		return err
	}
	d, err := fleet.Start(ctx, fleet.Options{
		Program: t.program, Dir: filepath.Join(t.dir, "new"), Upstream: network.URL(), Flags: fleet.OverBucket(bucket),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	left := make(chan int, newWrites)
	for i := range newWrites {
		left <- i
	}
	close(left)
	err = atOnce(func() error {
		for i := range left {
			if _, err := d.Put(ctx, check.Entry{Namespace: "new", Key: fmt.Sprint(i)}, "new"); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, d.Flush(ctx, patience))
}

// hold is an error unless all daemons come to hold the final states of the history.
func (t *trial) hold(ctx context.Context, held *check.History) error {
	for until := time.Now().Add(agreeWithin); ; {
		now := &check.History{Writes: held.Writes}
		if err := t.final(ctx, now); err != nil {
			return err
		}
		err := t.compare(held, now)
		if err == nil || time.Now().After(until) {
			return err
		}
		if err := tasks.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (t *trial) compare(held, now *check.History) error {
	for host := range t.daemons {
		for _, w := range held.Writes {
			was, found := held.Final[host][w.Entry]
			is, stays := now.Final[host][w.Entry]
			if found != stays || was.Value != is.Value {
				return fmt.Errorf("host %d held %q of %s/%s (%v), and holds %q (%v)", host, was.Value, w.Namespace, w.Key, found, is.Value, stays)
			}
		}
		if !maps.EqualFunc(held.Listed[host], now.Listed[host], func(_, _ check.State) bool { return true }) {
			return fmt.Errorf("host %d listed %d entries, and lists %d others", host, len(held.Listed[host]), len(now.Listed[host]))
		}
	}
	return nil
}

// awaitStatus asks for a daemon's status until it is as wanted.
func (t *trial) awaitStatus(ctx context.Context, d *fleet.Daemon, what string, wanted func(*api.Status) bool) error {
	for until := time.Now().Add(patience); ; {
		s, err := d.Status(ctx)
		if err == nil && wanted(s) {
			return nil
		}
		if time.Now().After(until) {
			return errors.Join(fmt.Errorf("waited for: %s; its status is %+v", what, s), err)
		}
		if err := tasks.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

const pollEvery = 100 * time.Millisecond
