package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/botwired/botwired/proof/load"
	"github.com/botwired/botwired/proof/loopback"
)

const (
	// referenceSize is the number of pending writes in the daemon that bench compares
	// all others with.
	referenceSize = 1000
	// inUse is how many entries agents read and write again and again, whatever else there is.
	inUse = 1000
	// stride leads from one entry that bench reads to the next. It is a prime, so that
	// bench reads all of them.
	stride = 999_983
)

// grower measures one size after another.
type grower struct {
	lab       *lab
	options   *growthOptions
	progress  progress
	reference *subjectOfGrowth
}

// subjectOfGrowth is a daemon and how many entries it holds.
type subjectOfGrowth struct {
	*server
	size       int
	namespaces int
	upstream   string // the address; nothing listens there at first
	filledAt   float64
	read       int   // how many of all entries bench has read since the daemon's last start
	most       int64 // the most resident memory in this state, in bytes
}

// begin starts a daemon with its upstream down, and gives it so many writes.
func (g *grower) begin(ctx context.Context, size, namespaces int) (*subjectOfGrowth, error) {
	up, err := loopback.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	g.progress.show("%s: writing", amount(size, namespaces))
	d := &subjectOfGrowth{size: size, namespaces: namespaces, upstream: up}
	if d.server, err = g.lab.start(ctx, g.daemon(d)); err != nil {
		return nil, err
	}
	if d.filledAt, err = g.write(ctx, d, size); err != nil {
		return nil, err
	}
	return d, d.sample()
}

// write writes the first of a daemon's entries, and returns how many the daemon took in a second.
func (g *grower) write(ctx context.Context, d *subjectOfGrowth, entries int) (perSecond float64, err error) {
	write := func(dst []byte, connection, n int) []byte { return d.entry(dst, connection+n*fillers) }
	result, err := load.Run(ctx, load.Options{
		Address: d.address, Connections: fillers, Requests: entries / fillers, Answer: load.HTTPAnswer,
		Request: httpPuts(d.address, write),
	})
	if err != nil {
		return 0, err
	}
	return result.PerSecond, nil
}

// daemon returns a command with room for any number of writes and copies. The daemon tries
// upstream every second, so that it soon finds it, and it waits no longer for an
// attempt that a kill may have cut short.
func (g *grower) daemon(d *subjectOfGrowth) command {
	c := g.lab.botwired(d.upstream,
		"--journal-max-bytes", "64GiB", "--cache-disk", "64GiB", "--flush-backoff-max", "1s", "--upstream-late-window", "1s")
	if d.server != nil {
		c.dir, c.address = d.dir, d.address
	}
	return c
}

// entry names the i-th entry.
func (d *subjectOfGrowth) entry(dst []byte, i int) []byte {
	dst = append(appendAgent(dst, i%d.namespaces), '/')
	return appendItem(dst, i)
}

const agentPrefix, itemPrefix = "agent-", "item-"

// appendAgent names a namespace.
func appendAgent(dst []byte, n int) []byte {
	return strconv.AppendInt(append(dst, agentPrefix...), int64(n), 10)
}

// appendItem names a key.
func appendItem(dst []byte, n int) []byte {
	return strconv.AppendInt(append(dst, itemPrefix...), int64(n), 10)
}

// amount says for people how much a daemon holds.
func amount(size, namespaces int) string {
	return thousands(float64(size)) + " entries in " + thousands(float64(namespaces)) + " namespaces"
}

// sample notes the most resident memory of the daemon since its start.
func (d *subjectOfGrowth) sample() error {
	rss, err := d.memory("VmHWM")
	d.most = max(d.most, rss)
	return err
}

// pendingAt returns a daemon's number of pending writes, and whether it is still
// counting them.
func pendingAt(ctx context.Context, address string) (n int, counting bool, err error) {
	body, err := ask(ctx, "GET", address, "/_botwired/status")
	if err != nil {
		return 0, false, err
	}
	var status struct {
		Pending     int
		DeadLetters int `json:"dead_letters"`
		Rebuilding  bool
	}
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		return 0, false, err
	}
	if status.DeadLetters > 0 {
		return 0, false, fmt.Errorf("%d writes were refused", status.DeadLetters)
	}
	return status.Pending, status.Rebuilding, nil
}

// measure restarts the daemon, and reads and writes entries.
func (g *grower) measure(ctx context.Context, d *subjectOfGrowth, state string) (*point, error) {
	p := &point{Entries: d.size, Namespaces: d.namespaces, State: state}
	what := amount(d.size, d.namespaces) + ", " + state
	var err error
	g.progress.show("%s: waiting for the disk to come to rest", what)
	if p.Disk, err = diskAtRest(ctx, d.dir, g.options.Rest); err != nil {
		return nil, err
	}
	g.progress.show("%s: restarting", what)
	for range g.options.Restarts {
		if err := g.restart(ctx, d, p); err != nil {
			return nil, err
		}
	}
	for round := range g.options.Rounds {
		g.progress.show("%s: round %d/%d", what, round+1, g.options.Rounds)
		if err := g.round(ctx, d, p, round); err != nil {
			return nil, err
		}
		if err := d.sample(); err != nil {
			return nil, err
		}
	}
	p.RSS = d.most
	p.sum()
	return p, nil
}

// restart kills the daemon and starts it again on the same data.
func (g *grower) restart(ctx context.Context, d *subjectOfGrowth, p *point) error {
	d.kill()
	again, err := g.lab.start(ctx, g.daemon(d))
	if err != nil {
		return err
	}
	d.server, d.read = again, 0
	p.Ready = max(p.Ready, time.Since(again.began).Seconds())
	for counting := true; counting; {
		if _, counting, err = pendingAt(ctx, d.address); err != nil {
			return err
		}
	}
	p.Counted = max(p.Counted, time.Since(again.began).Seconds())
	return d.sample()
}

// round measures GET and PUT of the entries in use on the daemon and on the reference, in turns, and
// GET of all entries on the daemon.
func (g *grower) round(ctx context.Context, d *subjectOfGrowth, p *point, round int) error {
	pair := rotated([]*subjectOfGrowth{d, g.reference}, round)
	for _, each := range pair {
		pick := func(dst []byte, connection, n int) []byte {
			return each.entry(dst, (connection+n*stride)%inUse)
		}
		got, err := g.load(ctx, each, each.gets(pick))
		if err != nil {
			return fmt.Errorf("GET: %w", err)
		}
		put, err := g.load(ctx, each, httpPuts(each.address, pick))
		if err != nil {
			return fmt.Errorf("PUT: %w", err)
		}
		if each == d {
			p.Gets, p.Puts = append(p.Gets, got), append(p.Puts, put)
		} else {
			p.ReferenceGets, p.ReferencePuts = append(p.ReferenceGets, got), append(p.ReferencePuts, put)
		}
	}
	asked := 0
	first, err := g.load(ctx, d, d.gets(func(dst []byte, _, n int) []byte {
		asked = n + 1
		return d.entry(dst, (d.read+n)*stride%d.size)
	}))
	if err != nil {
		return fmt.Errorf("GET of all: %w", err)
	}
	d.read += asked // the next round goes on behind these
	p.Firsts = append(p.Firsts, first)
	return nil
}

// gets makes GETs of the entries that name names.
func (d *subjectOfGrowth) gets(name naming) requester {
	return func(dst []byte, connection, n int) []byte {
		return load.AppendHost(name(append(load.AppendGet(dst), "/memory/"...), connection, n), d.address)
	}
}

func (g *grower) load(ctx context.Context, d *subjectOfGrowth, request requester) (figures, error) {
	result, err := load.Run(ctx, load.Options{
		Address: d.address, Connections: 1, Warmup: g.options.For / 5, Duration: g.options.For,
		Request: request, Answer: load.HTTPAnswer,
	})
	if err != nil {
		return figures{}, err
	}
	return figuresOf(result), nil
}
