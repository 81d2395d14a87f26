// Package load puts load on a server and times its answers.
//
// It is a closed loop: each connection sends a request, reads the whole answer, and
// sends the next. It speaks as little of HTTP/1.1 and of Redis's protocol as that
// needs, over raw connections and without allocating, so that it costs little and the
// same whatever it is put on: it shares the machine with the server. Every answer is
// checked, and the first that is not a success ends the run with an error.
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
	// readBuffer is how much is read at a time, in bytes.
	readBuffer = 64 << 10
	// stuckAfter bounds the wait for one answer once the run should be over: a server
	// that hangs fails the run.
	stuckAfter = 30 * time.Second
)

// Options say what load is put on which server.
type Options struct {
	// Address is the server's TCP address.
	Address string
	// Connections is how many requests are under way at any time; at least 1.
	Connections int
	// Warmup is how long requests are made before they count.
	Warmup time.Duration
	// Duration is how long they are made and count. A request counts if it began in
	// that time; of a slow server at least one of each connection does.
	Duration time.Duration
	// Requests, if not 0, is how many each connection makes at most. Without a
	// Duration all of them are made.
	Requests int
	// Request makes the n-th request of a connection, both counted from 0, in the
	// empty slice dst.
	Request func(dst []byte, connection, n int) []byte
	// Answer recognizes an answer.
	Answer Parser
}

// Parser finds the end of the first answer in what has been read: its length, which
// may be more than is there yet, or 0 if that cannot be told yet. It refuses what is
// not a success.
type Parser func(read []byte) (length int, err error)

// Result is what came of a run.
type Result struct {
	Requests int // that count
	// PerSecond is the throughput: the sum of the connections', each of them over the
	// time from its first request that counts to its last answer.
	PerSecond float64
	Latency   Histogram // from before a request was sent until its answer was read
}

// Run puts the load on the server and returns when it is over. All connections are
// open before the first request is made.
func Run(ctx context.Context, o Options) (*Result, error) {
	callers := make([]*caller, o.Connections)
	defer func() {
		for _, c := range callers {
			if c != nil {
				_ = c.conn.Close() // nothing is under way
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

// endOf says in words that a server hung up.
func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the server closed the connection")
	}
	return err
}
