// Package load puts load on a server and times its answers.
//
// It is a closed loop: each connection sends a request, reads the whole answer, and
// sends the next. It speaks as little of HTTP/1.1 and of Redis's protocol as that
// needs, over raw connections and without allocating. It shares the machine with the
// server, so it has to cost little, and the same for every server. It checks every
// answer, and the first that is not a success ends the run with an error.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// readBuffer is the size of one read, in bytes.
	readBuffer = 64 << 10
	// stuckAfter bounds the wait for one answer after the end of the run: a server that
	// hangs fails the run.
	stuckAfter = 30 * time.Second
)

// Options say which load goes to which server.
type Options struct {
	// Address is the server's TCP address.
	Address string
	// Connections is the number of requests in flight at any time; at least 1.
	Connections int
	// Warmup is how long Run makes requests before they count.
	Warmup time.Duration
	// Duration is how long Run makes requests that count. A request counts if it began
	// in that time; at least one of each connection does, even if the server is slow.
	Duration time.Duration
	// Requests, if not 0, is the most requests that each connection makes. Without a
	// Duration it makes all of them.
	Requests int
	// Request makes the n-th request of a connection, both counted from 0, in the
	// empty slice dst.
	Request func(dst []byte, connection, n int) []byte
	// Answer recognises an answer.
	Answer Parser
}

// Parser finds the end of the first answer in the bytes read so far. It returns the
// answer's length, which may be more than those bytes, or 0 if it does not know it yet.
// It refuses an answer that is not a success.
type Parser func(read []byte) (length int, err error)

// Result holds the figures of a run.
type Result struct {
	Requests int // those that count
	// PerSecond is the throughput: the sum over the connections, each over the time
	// from its first request that counts to its last answer.
	PerSecond float64
	Latency   Histogram // from before a request was sent until its answer was read
}

// Run puts the load on the server and returns when it is over. It opens all connections
// before it makes the first request.
func Run(ctx context.Context, o Options) (*Result, error) {
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
		callers[i] = &caller{options: &o, number: i, conn: conn, in: make([]byte, readBuffer)}
	}
	return run(ctx, &o, callers)
}

func run(ctx context.Context, o *Options, callers []*caller) (*Result, error) {
	g, running := errgroup.WithContext(ctx)
	begin := time.Now().Add(o.Warmup)
	for _, c := range callers {
		g.Go(func() error {
			defer context.AfterFunc(running, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })()
			return c.run(begin)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	result := &Result{}
	for _, c := range callers {
		result.Latency.Add(&c.latency)
		if n := c.latency.Count(); n > 0 {
			result.PerSecond += float64(n) / c.last.Sub(c.first).Seconds()
		}
	}
	result.Requests = result.Latency.Count()
	return result, nil
}

// caller is one connection.
type caller struct {
	options *Options
	number  int
	conn    net.Conn
	out     []byte
	in      []byte
	latency Histogram
	first   time.Time // when the first request that counts was made
	last    time.Time // when the last answer came
}

func (c *caller) run(begin time.Time) error {
	o := c.options
	end := begin.Add(o.Duration)
	if o.Duration > 0 {
		if err := c.conn.SetDeadline(end.Add(stuckAfter)); err != nil {
			return err
		}
	}
	now := time.Now()
	for n := 0; (o.Requests == 0 || n < o.Requests) && (o.Duration == 0 || now.Before(end) || c.latency.Count() == 0); n++ {
		if err := c.call(n); err != nil {
			return fmt.Errorf("request %d of connection %d: %w", n, c.number, err)
		}
		answered := time.Now()
		if !now.Before(begin) {
			if c.latency.Count() == 0 {
				c.first = now
			}
			c.latency.Record(answered.Sub(now))
			c.last = answered
		}
		now = answered
	}
	return nil
}

// call makes one request and reads its answer.
func (c *caller) call(n int) error {
	c.out = c.options.Request(c.out[:0], c.number, n)
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
			if length, err = c.options.Answer(c.in[:read]); err != nil {
				return err
			}
		}
	}
	if read > length {
		return fmt.Errorf("%d bytes came after the answer", read-length)
	}
	return nil
}

// endOf is an error's text for a server that hung up.
func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the server closed the connection")
	}
	return err
}
