package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/proof/cluster/check"
)

const (
	// between is how long the load goes on between two faults, once the servers are healthy again.
	between = 2 * time.Second
	// away is how long a fault lasts.
	away = 3 * time.Second
	// killEvery is how often a long trial kills the leader.
	killEvery = time.Minute
)

// faults makes those of the trial, and returns when the load may end.
func (t *trial) faults(ctx context.Context) error {
	if err := tasks.Sleep(ctx, between); err != nil {
		return err
	}
	switch {
	case t.partition > 0:
		return t.part(ctx)
	case t.lasts > 0:
		return t.killLeaders(ctx)
	}
	for _, do := range []func(context.Context) error{t.killLeader, t.partServer, t.loseDisk, t.loseMajority, t.killAll, t.partDaemon} {
		if err := do(ctx); err != nil {
			return err
		}
		if err := t.recovered(ctx); err != nil {
			return err
		}
	}
	return nil
}

// recovered waits until the servers are healthy again. One fault at a time is what a cluster of three promises
// to survive.
func (t *trial) recovered(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.servers.Healthy(within); err != nil {
		return err
	}
	return tasks.Sleep(ctx, between)
}

// killLeaders kills the leader again and again.
func (t *trial) killLeaders(ctx context.Context) error {
	next := time.Now()
	for end := next.Add(t.lasts); time.Now().Before(end); {
		if err := errors.Join(t.killLeader(ctx), t.recovered(ctx)); err != nil {
			return err
		}
		next = next.Add(killEvery)
		if err := tasks.Sleep(ctx, min(time.Until(next), time.Until(end))); err != nil {
			return err
		}
	}
	return nil
}

// killLeader kills the server that leads the bucket's stream, and starts it again.
func (t *trial) killLeader(ctx context.Context) error {
	i, err := t.servers.Leader(ctx, stream)
	if err != nil {
		return err
	}
	t.kills++
	t.say("%s, which leads, is killed", t.servers.All[i].Name())
	return t.down(ctx, i)
}

// down kills servers, and starts them again.
func (t *trial) down(ctx context.Context, numbers ...int) error {
	for _, i := range numbers {
		if err := t.servers.All[i].Kill(); err != nil {
			return err
		}
	}
	if err := tasks.Sleep(ctx, away); err != nil {
		return err
	}
	for _, i := range numbers {
		if err := t.servers.All[i].Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// partServer cuts the leader off from the other servers and from all daemons but the first.
func (t *trial) partServer(ctx context.Context) error {
	i, err := t.servers.Leader(ctx, stream)
	if err != nil {
		return err
	}
	t.say("%s, which leads, is cut off from the other servers and from all daemons but one", t.servers.All[i].Name())
	t.servers.Part(i)
	for host, network := range t.networks {
		if host > 0 {
			network.Part(i)
		}
	}
	if err := tasks.Sleep(ctx, 2*away); err != nil {
		return err
	}
	t.heal()
	return nil
}

// loseDisk kills a server that does not lead, and starts it without its files.
func (t *trial) loseDisk(ctx context.Context) error {
	leader, err := t.servers.Leader(ctx, stream)
	if err != nil {
		return err
	}
	one := t.servers.All[(leader+1)%servers]
	t.say("%s is killed and loses its disk", one.Name())
	if err := errors.Join(one.Kill(), one.Wipe()); err != nil {
		return err
	}
	if err := tasks.Sleep(ctx, away); err != nil {
		return err
	}
	return one.Start(ctx)
}

func (t *trial) loseMajority(ctx context.Context) error {
	t.say("two of three servers are killed")
	return t.down(ctx, 0, 1)
}

// killAll kills all servers, and copies their files before they start again.
func (t *trial) killAll(ctx context.Context) error {
	t.say("all servers are killed, and their files are copied")
	if err := t.servers.Kill(); err != nil {
		return err
	}
	for _, one := range t.servers.All {
		if err := one.Copy(); err != nil {
			return err
		}
	}
	return errors.Join(tasks.Sleep(ctx, away), t.servers.Restart(ctx))
}

// partDaemon cuts the last daemon off from all servers.
func (t *trial) partDaemon(ctx context.Context) error {
	host := len(t.daemons) - 1
	t.say("host %d is cut off from all servers", host)
	t.networks[host].Part()
	sides := make(map[int]int)
	sides[host] = 1
	return t.cutFor(ctx, sides, away)
}

// part cuts the network in two. On one side are a server and half of the daemons, and the last daemon is alone.
// The side of one server takes no writes: each daemon there is as alone as the last one.
func (t *trial) part(ctx context.Context) error {
	last, sides := len(t.daemons)-1, make(map[int]int)
	t.servers.Part(0)
	for host, network := range t.networks {
		switch {
		case host == last:
			network.Part()
			sides[host] = 1 + host
		case host%2 == 1:
			network.Part(1, 2)
			sides[host] = 1 + host
		default:
			network.Part(0)
		}
	}
	t.say("%s with half of the daemons is cut off from the others, and host %d from all, for %s", t.servers.All[0].Name(), last, t.partition)
	return t.cutFor(ctx, sides, t.partition)
}

// cutFor heals the network after a while, and notes which hosts could not know of each other. Writes that were
// on the way when the network was cut may still have arrived.
func (t *trial) cutFor(ctx context.Context, sides map[int]int, lasts time.Duration) error {
	from := time.Now().Add(time.Second).UnixMicro()
	if err := tasks.Sleep(ctx, lasts); err != nil {
		return err
	}
	t.cuts = append(t.cuts, check.Cut{From: from, To: time.Now().UnixMicro(), Side: sides})
	t.heal()
	return nil
}

func (t *trial) heal() {
	t.say("the network is whole again")
	t.servers.Heal()
	for _, network := range t.networks {
		network.Heal()
	}
}

// say prints what happens, with the time.
func (t *trial) say(format string, args ...any) {
	t.progress.line("%6s  %s", t.now().Round(time.Second), fmt.Sprintf(format, args...))
}
