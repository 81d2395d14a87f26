package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/botwired/botwired/internal/load"
	"github.com/botwired/botwired/proof/loopback"
)

const (
	// referenceSize is the number of pending writes in the daemon that bench compares
	// all others with.
	referenceSize = 1000
	// drainsWithin bounds the wait until upstream has everything.
	drainsWithin = time.Hour
	// quietFor is how long the size of the disk must not change before bench takes it
	// for at rest.
	quietFor = 3 * time.Second
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
	size     int
	upstream string // the address; nothing listens there at first
	filledAt float64
	most     int64 // the most resident memory in this state, in bytes
}

// begin starts a daemon with its upstream down, and gives it so many writes.
func (g *grower) begin(ctx context.Context, size int) (*subjectOfGrowth, error) {
	up, err := loopback.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	g.progress.show("%d entries: writing", size)
	d := &subjectOfGrowth{size: size, upstream: up}
	if d.server, err = g.lab.start(ctx, g.daemon(d)); err != nil {
		return nil, err
	}
	write := func(dst []byte, connection, n int) []byte { return grown(dst, connection+n*fillers) }
	result, err := load.Run(ctx, load.Options{
		Address: d.address, Connections: fillers, Requests: size / fillers, Answer: load.HTTPAnswer,
		Request: httpPuts(d.address, write),
	})
	if err != nil {
		return nil, err
	}
	d.filledAt = result.PerSecond
	return d, d.sample()
}

// daemon returns a command with room for any number of writes. The daemon tries
// upstream every second, so that it soon finds it, and it waits no longer for an
// attempt that a kill may have cut short.
func (g *grower) daemon(d *subjectOfGrowth) command {
	c := g.lab.botwired(d.upstream,
		"--journal-max-bytes", "64GiB", "--flush-backoff-max", "1s", "--upstream-late-window", "1s")
	if d.server != nil {
		c.dir, c.address = d.dir, d.address
	}
	return c
}

// grown names the i-th entry, of a thousand agents.
func grown(dst []byte, i int) []byte {
	dst = strconv.AppendInt(append(dst, "agent-"...), int64(i%1000), 10)
	return strconv.AppendInt(append(dst, "/item-"...), int64(i), 10)
}

// sample notes the resident memory of the daemon.
func (d *subjectOfGrowth) sample() error {
	rss, err := d.memory("VmRSS")
	d.most = max(d.most, rss)
	return err
}

// measureSize measures a daemon of that size twice: with all entries pending, and with
// all settled.
func (g *grower) measureSize(ctx context.Context, size int) ([]*point, error) {
	d, err := g.begin(ctx, size)
	if err != nil {
		return nil, err
	}
	pending, err := g.measure(ctx, d, "pending")
	if err != nil {
		return nil, err
	}
	pending.PerSecond = d.filledAt
	sink, err := g.lab.start(ctx, g.lab.sink(d.upstream, 0))
	if err != nil {
		return nil, err
	}
	drained, err := g.drain(ctx, d)
	if err != nil {
		return nil, err
	}
	pending.RSS, d.most = d.most, 0 // draining takes its memory for the pending writes
	settled, err := g.measure(ctx, d, "settled")
	if err != nil {
		return nil, err
	}
	settled.PerSecond = drained
	return []*point{pending, settled}, errors.Join(d.remove(), sink.remove())
}

// drain waits until nothing is pending, and returns how many writes a second went
// upstream.
func (g *grower) drain(ctx context.Context, d *subjectOfGrowth) (perSecond float64, err error) {
	began, all := time.Now(), 0
	for {
		n, _, err := pendingAt(ctx, d.address)
		if err == nil {
			err = d.sample()
		}
		switch all = max(all, n); {
		case err != nil:
			return 0, err
		case n == 0:
			return float64(all) / time.Since(began).Seconds(), nil
		case time.Since(began) > drainsWithin:
			return 0, fmt.Errorf("%d writes are pending still", n)
		}
		g.progress.show("%d entries: %d to be carried upstream", d.size, n)
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
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
	p := &point{Entries: d.size, State: state}
	var err error
	g.progress.show("%d entries, %s: waiting for the disk to come to rest", d.size, state)
	if p.Disk, err = diskAtRest(ctx, d.dir, g.options.Rest); err != nil {
		return nil, err
	}
	g.progress.show("%d entries, %s: restarting", d.size, state)
	for range g.options.Restarts {
		if err := g.restart(ctx, d, p); err != nil {
			return nil, err
		}
	}
	for round := range g.options.Rounds {
		g.progress.show("%d entries, %s: round %d/%d", d.size, state, round+1, g.options.Rounds)
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
	d.server = again
	p.Ready = max(p.Ready, time.Since(again.began).Seconds())
	for counting := true; counting; {
		if _, counting, err = pendingAt(ctx, d.address); err != nil {
			return err
		}
	}
	p.Counted = max(p.Counted, time.Since(again.began).Seconds())
	return d.sample()
}

// round measures GET and PUT on the daemon and on the reference, in turns.
func (g *grower) round(ctx context.Context, d *subjectOfGrowth, p *point, round int) error {
	pair := rotated([]*subjectOfGrowth{d, g.reference}, round)
	for _, each := range pair {
		pick := func(dst []byte, connection, n int) []byte {
			return grown(dst, (connection+n*stride)%each.size)
		}
		reads := func(dst []byte, connection, n int) []byte {
			return load.AppendHost(pick(append(load.AppendGet(dst), "/memory/"...), connection, n), each.address)
		}
		got, err := g.load(ctx, each, reads)
		if err != nil {
			return fmt.Errorf("GET: %w", err)
		}
		put, err := g.load(ctx, each, httpPuts(each.address, pick))
		if err != nil {
			return fmt.Errorf("PUT: %w", err)
		}
		if each == d {
			p.gets, p.puts = append(p.gets, got), append(p.puts, put)
		} else {
			p.referenceGets, p.referencePuts = append(p.referenceGets, got), append(p.referencePuts, put)
		}
	}
	return nil
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

// diskAtRest waits, within limits, until a folder's size no longer changes, and returns
// it in bytes.
func diskAtRest(ctx context.Context, dir string, within time.Duration) (int64, error) {
	began, last := time.Now(), int64(-1)
	for since := began; ; {
		size, err := sizeOf(dir)
		if err != nil {
			return 0, err
		}
		now := time.Now()
		if size != last {
			last, since = size, now
		}
		if now.Sub(since) >= quietFor || now.Sub(began) >= within {
			return size, nil
		}
		if err := sleep(ctx, quietFor/10); err != nil {
			return 0, err
		}
	}
}

// sizeOf returns the length of all files in a folder. The daemon may remove some
// meanwhile.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}
