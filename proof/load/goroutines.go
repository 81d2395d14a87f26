package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
)

// driveGoroutines runs a load with a goroutine for each connection, on any system.
func driveGoroutines(ctx context.Context, o *Options) (*Result, error) {
	callers := make([]*caller, o.Connections)
	defer func() {
		for _, c := range callers {
			if c != nil {
				_ = c.conn.Close() // no request is in flight
			}
		}
	}()
	for i := range callers {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Address)
		if err != nil {
			return nil, err
		}
		callers[i] = &caller{number: i, conn: conn, in: make([]byte, readBuffer)}
	}
	return run(ctx, planFrom(o), callers)
}

func run(ctx context.Context, p *plan, callers []*caller) (*Result, error) {
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { p.sample(running); return nil })
	for _, c := range callers {
		c.plan = p
		g.Go(func() error {
			defer context.AfterFunc(running, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })()
			return c.run(running)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	latency, tallies := &Histogram{}, make([]tally, len(callers))
	for i, c := range callers {
		latency.Add(&c.latency)
		tallies[i] = c.tally
	}
	return p.result(latency, tallies), nil
}

// caller is one connection.
type caller struct {
	plan    *plan
	number  int
	conn    net.Conn
	out     []byte
	in      []byte
	tally   tally
	latency Histogram
}

func (c *caller) run(ctx context.Context) error {
	p := c.plan
	if p.Duration > 0 {
		if err := c.conn.SetDeadline(p.end.Add(stuckAfter)); err != nil {
			return err
		}
	}
	answered := p.start
	for n := 0; ; n++ {
		due := p.due(c.number, n, answered)
		if !p.more(n, due, &c.tally) {
			return nil
		}
		if err := sleepUntil(ctx, due); err != nil {
			return err
		}
		if err := c.call(n); err != nil {
			return fmt.Errorf("request %d of connection %d: %w", n, c.number, err)
		}
		answered = time.Now()
		p.record(&c.tally, &c.latency, due, answered)
	}
}

// call makes one request and reads its answer.
func (c *caller) call(n int) error {
	c.out = c.plan.Request(c.out[:0], c.number, n)
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	read, length := 0, 0
	for length == 0 || read < length {
		if read == len(c.in) {
			c.in = append(c.in, make([]byte, len(c.in))...)
		}
		k, err := c.conn.Read(c.in[read:])
		if err != nil {
			return endOf(err)
		}
		if read += k; length == 0 {
			if length, err = c.plan.Answer(c.in[:read]); err != nil {
				return err
			}
		}
	}
	if read > length {
		return surplus(read - length)
	}
	return nil
}
